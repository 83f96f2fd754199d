// Package child runs a part of an experiment in a process of its own: this
// very binary, executed again, which answers calls (net/rpc) until its parent
// hangs up or dies.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// variable names the role of a child process.
const variable = "PUSHCOST_CHILD"

// patience is how long a child may take to answer a call, or to end.
var patience = 5 * time.Minute

// A Child is a process that plays a role. Its methods may be called at once
// from several goroutines.
type Child struct {
	role    string
	process *os.Process
	client  *rpc.Client
	stop    func() error
}

// Start executes this binary again, in a role that its [Main] knows, with these
// settings added to GODEBUG. The child ends with ctx, when it is stopped, and
// when this process ends, however that happens. One that takes minutes over a
// call is ended with an error that shows its goroutines.
func Start(ctx context.Context, role, godebug string) (*Child, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), variable+"="+role,
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0", // the race detector lingers for a second
		"GODEBUG="+strings.TrimPrefix(os.Getenv("GODEBUG")+","+godebug, ","))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{role: role, process: cmd.Process, client: rpc.NewClient(line{out, in})}
	c.stop = sync.OnceValue(func() error {
		defer c.limit().Stop()
		c.client.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("child %s: %w: %s", role, errors.Join(ctx.Err(), err), bytes.TrimSpace(stderr.Bytes()))
		}
		return nil
	})
	return c, nil
}

// A line is what parent and child talk over; closing it hangs up.
type line struct {
	io.Reader
	io.WriteCloser
}

// Call calls a method of the role. Its argument and its result cross as
// encoding/gob writes them.
func (c *Child) Call(method string, in, out any) error {
	return c.call(c.role+"."+method, in, out)
}

// limit ends the child, unless it is stopped in time.
func (c *Child) limit() *time.Timer {
	return time.AfterFunc(patience, func() {
		if c.process.Signal(syscall.SIGQUIT) != nil { // at which Go prints what all goroutines do
			c.process.Kill()
		}
	})
}

func (c *Child) call(method string, in, out any) error {
	limit := c.limit()
	err := c.client.Call(method, in, out)
	inTime := limit.Stop()
	if said := rpc.ServerError(""); err != nil && !errors.As(err, &said) {
		if end := c.stop(); end != nil { // which says why it no longer answers
			if !inTime {
				end = fmt.Errorf("%s took longer than %s: %w", method, patience, end)
			}
			return end
		}
	}
	if err != nil {
		return fmt.Errorf("child %s: %w", c.role, err)
	}
	return nil
}

// Memory collects the child's garbage and returns what it then holds.
func (c *Child) Memory() (m Memory, err error) {
	err = c.call("self.Memory", 0, &m)
	return m, err
}

// CPU is the time that the child has had on processors so far.
func (c *Child) CPU() (t time.Duration, err error) {
	err = c.call("self.CPU", 0, &t)
	return t, err
}

// Allocs is the number of objects that the child has allocated so far.
func (c *Child) Allocs() (objects int64, err error) {
	err = c.call("self.Allocs", 0, &objects)
	return objects, err
}

// Stop hangs up and waits for the child's end.
func (c *Child) Stop() error { return c.stop() }

// Run starts a child whose role is one function ([Once]), calls it and stops
// the child.
func Run(ctx context.Context, role, godebug string, in, out any) error {
	c, err := Start(ctx, role, godebug)
	if err != nil {
		return err
	}
	called, ended := c.Call("Run", in, out), c.Stop()
	if errors.Is(called, ended) { // it says so already, or both went well
		return called
	}
	return errors.Join(called, ended)
}

// Once makes a function a role.
func Once[In, Out any](f func(In) (Out, error)) any { return once[In, Out](f) }

type once[In, Out any] func(In) (Out, error)

func (f once[In, Out]) Run(in In, out *Out) (err error) {
	*out, err = f(in)
	return err
}

// Main plays the role this process was started for and exits. In a process
// that was not, it returns. TestMain calls it first. A role is a receiver as
// net/rpc has it.
func Main(roles map[string]any) {
	role, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	out := os.Stdout
	os.Stdout = os.Stderr // whatever is printed here is not an answer
	if err := answer(role, roles[role], line{hangUp{os.Stdin}, out}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func answer(name string, role any, parent line) error {
	if role == nil {
		return errors.New("nobody plays this role")
	}
	server := rpc.NewServer()
	if err := errors.Join(server.RegisterName("self", self{}), server.RegisterName(name, role)); err != nil {
		return err
	}
	server.ServeConn(parent)
	return nil
}

// hangUp ends the process when its parent has hung up or died, whatever it is
// doing: an orphan would hold its memory and ports.
type hangUp struct{ io.Reader }

func (h hangUp) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if err != nil {
		os.Exit(0)
	}
	return n, err
}
