package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/lvm-storage/lvm-operator/test/prometheus"
)

// console has the programs that show the console plugin for the cluster: the bridge, which replaces the console, the
// plugin's server, and the directory of the page that loads the plugin.
type console struct{ bridge, plugin, host string }

const (
	// bridgeLog is in the lab's directory.
	bridgeLog = "console.log"
	// bridgeLimit is the timeout of its start.
	bridgeLimit = 30 * time.Second
)

var bridgeAddress = regexp.MustCompile(`http://\S+/local-volumes`)

// show starts the bridge, which runs as long as the lab, and returns the address for a browser. It uses a running
// bridge if there is one.
func (c console) show(ctx context.Context, lab string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, bridgeLimit)
	defer cancel()
	name := filepath.Join(lab, bridgeLog)
	if address := addressIn(name); address != "" && answers(ctx, address) {
		return address, nil
	}
	log, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(c.bridge, "--lab", lab, "--plugin", c.plugin, "--host", c.host, "--prometheus",
		"http://"+prometheus.Address)
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		if address := addressIn(name); address != "" && answers(ctx, address) {
			return address, nil
		}
		select {
		case err := <-ended:
			said, _ := os.ReadFile(name)
			return "", fmt.Errorf("the bridge ended: %w\n%s", err, said)
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("the bridge does not answer: %w; see %s", ctx.Err(), name),
				command.Process.Kill())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// addressIn returns the announced address of a bridge, or "".
func addressIn(name string) string {
	said, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return bridgeAddress.FindString(string(said))
}

func answers(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
