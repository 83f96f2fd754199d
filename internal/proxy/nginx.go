package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// nginx runs the real one, in the foreground and with one worker, with these
// directives beside proxy_pass. It is handed the listener, as an nginx is by
// the one it replaces: no port is guessed, and clients that come early wait.
func nginx(directives string) func(context.Context, net.Listener, Server) error {
	return func(ctx context.Context, ln net.Listener, to Server) (err error) {
		defer ln.Close()
		dir, err := os.MkdirTemp("", "nginx")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(file, fmt.Appendf(nil, nginxConf, ln.Addr(), to.Addr, directives), 0o600); err != nil {
			return err
		}
		tcp, ok := ln.(*net.TCPListener)
		if !ok {
			return fmt.Errorf("nginx listens on real sockets, not on a %T", ln)
		}
		socket, err := tcp.File()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "nginx", "-p", dir, "-c", file, "-e", "stderr")
		cmd.ExtraFiles = []*os.File{socket}
		cmd.Env = append(os.Environ(), "NGINX=3;")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // at which it ends its worker
		cmd.WaitDelay = time.Minute
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		ln.Close() // it is nginx's now
		socket.Close()
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			return errors.Join(err, errors.New(stderr.String()))
		}
		return nil
	}
}

// nginxConf leaves everything at its default but where files are, how many
// processes there are, and the size of a page of memory.
const nginxConf = `
daemon off;
user root;
pid nginx.pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	proxy_buffer_size 4k;
	proxy_buffers 8 4k;
	server {
		listen %s;
		location / {
			proxy_pass http://%s;
			%s
		}
	}
}
`
