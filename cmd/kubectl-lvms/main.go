// Command kubectl-lvms is a plugin of kubectl and oc that shows the state of LVM Storage: `kubectl lvms`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/lvm-storage/lvm-operator/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
