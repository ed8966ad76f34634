// Command console-plugin serves the files of the OpenShift console's plugin for local volumes, and nothing else. It has
// no access to the API server: the pages read and write with the permissions of the user in the browser.
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
	"strings"
	"syscall"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/lvm-storage/lvm-operator/console-plugin/server"
)

// dist contains the directory plugin that `make console-build` writes.
//
//go:embed all:dist
var dist embed.FS

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "console-plugin:", err)
		os.Exit(1)
	}
}

// namespaceVariable is an environment variable of `console-plugin`: the default of its flag `--namespace`, the
// namespace of the LVMCluster.
const namespaceVariable = "NAMESPACE"

func run() error {
	var o server.Options
	flag.StringVar(&o.Address, "listen-address", ":9443", "address to serve on, over TLS")
	flag.StringVar(&o.CertDir, "cert-dir", "/var/run/secrets/serving-cert",
		"folder with tls.crt and tls.key, read again when they change")
	flag.StringVar(&o.Namespace, "namespace", os.Getenv(namespaceVariable),
		"namespace of the LVMCluster, told to the pages")
	version := flag.String("tls-min-version", "",
		"the least version of TLS, in the words of OpenShift's API: VersionTLS12; empty for TLS 1.2")
	ciphers := flag.String("tls-ciphers", "",
		"cipher suites of TLS 1.2 that are served, by OpenSSL's names, separated by commas; empty for Go's own choice")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	o.Profile.MinTLSVersion = configv1.TLSProtocolVersion(*version)
	if *ciphers != "" {
		o.Profile.Ciphers = strings.Split(*ciphers, ",")
	}
	files, err := fs.Sub(dist, "dist/plugin")
	if err != nil {
		return err
	}
	if _, err := fs.Stat(files, "plugin-manifest.json"); errors.Is(err, fs.ErrNotExist) {
		return errors.New(
			"this program was built without the plugin: run `make console-build`, which builds the plugin first")
	}
	o.Files, o.Log = files, slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return server.Run(ctx, o)
}
