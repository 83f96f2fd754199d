// The official client: prints n events, the acknowledgement of a message, and
// the transport it ended on.
const { io } = require("socket.io-client");
const [url, transports, room, n] = process.argv.slice(2);
const options = { auth: { room }, reconnection: false };
if (transports) options.transports = [transports];
const socket = io(url, options);
const settled = transports ? Promise.resolve() : new Promise((resolve) => {
  // manager "open" comes before the attempt to upgrade is over
  socket.io.on("open", () => {
    socket.io.engine.once("upgrade", resolve);
    socket.io.engine.once("upgradeError", resolve);
  });
});
let seen = 0;
socket.on("message", async (event) => {
  console.log(JSON.stringify(event));
  if (++seen < n) return;
  await settled;
  const refusal = await socket.emitWithAck("message", "sell");
  console.log(JSON.stringify(refusal));
  console.log(socket.io.engine.transport.name);
  socket.close();
});
socket.on("connect_error", (error) => {
  console.log(JSON.stringify(error.data ?? error.message));
  process.exitCode = 1;
});
