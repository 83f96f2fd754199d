// Package child runs a part of an experiment in a process of its own: this
// very binary, executed again.
package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// variable names the role of a child process.
const variable = "PUSHCOST_CHILD"

// Run executes this binary again, in a role that its [Main] knows, with these
// settings added to GODEBUG. The child gets in as JSON and its answer is
// decoded into out. It is killed when ctx ends.
func Run(ctx context.Context, role, godebug string, in, out any) error {
	request, err := json.Marshal(in)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), variable+"="+role,
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0", // the race detector lingers for a second
		"GODEBUG="+strings.TrimPrefix(os.Getenv("GODEBUG")+","+godebug, ","))
	cmd.Stdin = bytes.NewReader(request)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("child %s: %w: %s", role, err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("child %s: its answer is not JSON: %w: %.200q", role, err, answer)
	}
	return nil
}

// Main plays the role this process was started for and exits. In a process
// that was not, it returns. TestMain calls it first.
func Main(roles map[string]func(in []byte) (out any, err error)) {
	role, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	if err := play(roles[role]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(role func(in []byte) (out any, err error)) error {
	if role == nil {
		return fmt.Errorf("nobody plays this role")
	}
	var in json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	out, err := role(in)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}
