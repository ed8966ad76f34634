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

// dist contains the directory plugin, which `make image` writes. It has the build for older consoles in its
// directory legacy.
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
	flag.StringVar(&o.Address, "listen-address", ":9443", "address to serve HTTPS on")
	flag.StringVar(&o.CertDir, "cert-dir", "/var/run/secrets/serving-cert",
		"directory with tls.crt and tls.key, which are reloaded when they change")
	flag.StringVar(&o.Namespace, "namespace", os.Getenv(namespaceVariable),
		"namespace of the LVMCluster, in which the pages of the plugin read and create it")
	version := flag.String("tls-min-version", "",
		"minimum TLS version, as in OpenShift's API, for example VersionTLS12; TLS 1.2 if empty")
	ciphers := flag.String("tls-ciphers", "",
		"comma-separated OpenSSL names of the cipher suites for TLS 1.2; Go's default if empty")
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
	for _, manifest := range []string{"plugin-manifest.json", server.Legacy[1:] + "plugin-manifest.json"} {
		if _, err := fs.Stat(files, manifest); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s of the plugin is missing in this program: build it with `make image`",
				manifest)
		}
	}
	o.Files, o.Log = files, slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return server.Run(ctx, o)
}
