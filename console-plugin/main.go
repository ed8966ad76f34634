// Command console-plugin serves the OpenShift console's plugin for local volumes: files, and nothing else. It has no rights on the
// cluster but to read how TLS is to be served; what the pages read and write, the browser does as its user.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/lvm-storage/lvm-operator/console-plugin/server"
)

// The folder plugin in it is what `make console-build` wrote.
//
//go:embed all:dist
var dist embed.FS

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "console-plugin:", err)
		os.Exit(1)
	}
}

func run() error {
	var o server.Options
	flag.StringVar(&o.Address, "listen-address", ":9443", "address to serve on, over TLS")
	flag.StringVar(&o.CertDir, "cert-dir", "/var/run/secrets/serving-cert", "folder with tls.crt and tls.key, read again when they change")
	flag.StringVar(&o.Namespace, "namespace", os.Getenv("NAMESPACE"), "namespace of the LVMCluster, told to the pages")
	flag.BoolVar(&o.FollowProfile, "tls-profile", true, "serve TLS as the cluster's APIServer object says, where there is one")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	files, err := fs.Sub(dist, "dist/plugin")
	if err != nil {
		return err
	}
	if _, err := fs.Stat(files, "plugin-manifest.json"); errors.Is(err, fs.ErrNotExist) {
		return errors.New("this program was built without the plugin: run `make console-build`, which builds the plugin first")
	}
	o.Files, o.Log = files, slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return server.Run(ctx, o)
}
