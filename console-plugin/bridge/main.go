package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

type options struct {
	lab, plugin, host, listen string
	rules, prometheus         string
	namespace                 string
	command                   []string
}

func main() {
	var o options
	// controller-runtime adds its own flags to the default set.
	flags := flag.NewFlagSet("bridge", flag.ExitOnError)
	flags.StringVar(&o.lab, "lab", "",
		"directory of the lab with the cluster; if empty, an API server is started (KUBEBUILDER_ASSETS)")
	flags.StringVar(&o.plugin, "plugin", "", "path of the plugin server's program")
	flags.StringVar(&o.host, "host", "", "directory with the page that loads the plugin")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to serve the browser on")
	flags.StringVar(&o.rules, "rules", "",
		"file with the shipped rules; if set, a Prometheus with these rules and generated samples of a day is started")
	flags.StringVar(&o.prometheus, "prometheus", "", "address of a running Prometheus, in the lab's network if "+
		"--lab is set; without this and --rules, Prometheus is unreachable")
	flags.StringVar(&o.namespace, "namespace", env.Namespace,
		"namespace of the operator, which the API server that is started gets. Not with --lab")
	_ = flags.Parse(os.Args[1:])
	o.command = flags.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bridge:", err)
		os.Exit(1)
	}
}

// run serves until the command ends. Without a command it serves until the lab ends.
func run(ctx context.Context, o options) (err error) {
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	config, stop, err := cluster(ctx, o.lab, o.namespace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	tokens, err := makeUsers(ctx, c)
	if err != nil {
		return err
	}
	plugin, end, err := startPlugin(ctx, o.plugin, o.namespace)
	if err != nil {
		return err
	}
	defer end()
	api, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	b, err := newBridge(o.host, plugin, reach{api, config.CAData, config.Dial}, tokens)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	endMetrics, err := o.metrics(ctx, b, listener.Addr().String(), config.Dial, allowed(config, tokens))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer endMetrics()
	server := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	address := "http://" + listener.Addr().String()
	if len(o.command) == 0 {
		fmt.Printf("%s%s/local-volumes\nIt ends with Ctrl+C, or with the cluster.\n", announcement, address)
		return waitFor(ctx, o.lab)
	}
	command := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
	command.Stdout = os.Stdout
	command.Stderr = os.Stderr
	command.Env = append(os.Environ(), "CONSOLE_URL="+address, "CONSOLE_NAMESPACE="+o.namespace)
	return command.Run()
}

// announcement is the beginning of the line with the address, which the demo reads.
const announcement = "The plugin, as the console shows it: "

// labInterval is the interval at which it is checked whether the lab still runs.
const labInterval = 2 * time.Second

// waitFor returns when ctx or the lab ends.
func waitFor(ctx context.Context, folder string) error {
	ticker := time.NewTicker(labInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if folder == "" {
			continue
		}
		if _, err := lab.Open(folder); errors.Is(err, lab.ErrNotRunning) {
			fmt.Println("The cluster has ended.")
			return nil
		}
	}
}

// metrics gives the bridge a Prometheus if one is configured.
func (o options) metrics(ctx context.Context, b *bridge, address string, dial dialer,
	allowed authorizer) (end func(), err error) {
	var at *url.URL
	end = func() {}
	switch {
	case o.rules != "":
		dial = nil // on this machine
		at, end, err = startPrometheus(ctx, o.rules, address, o.namespace)
	case o.prometheus != "":
		at, err = url.Parse(o.prometheus)
	default:
		return end, nil
	}
	if err == nil {
		b.metrics = newMetrics(at, dial, allowed)
	}
	return end, err
}

// cluster returns the configuration of a running lab, or of an API server that it starts, with a namespace.
func cluster(ctx context.Context, folder, namespace string) (*rest.Config, func() error, error) {
	if folder == "" {
		return startAPIServer(ctx, namespace)
	}
	l, err := lab.Open(folder)
	if err != nil {
		return nil, nil, err
	}
	config, err := l.RESTConfig()
	return config, func() error { return nil }, err
}

// startPlugin starts the real server of the plugin with a certificate of its own.
func startPlugin(ctx context.Context, program, namespace string) (reach, func(), error) {
	folder, err := os.MkdirTemp("", "console-plugin")
	if err != nil {
		return reach{}, nil, err
	}
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), 365*24*time.Hour, "localhost", "127.0.0.1"))
	if err != nil {
		return reach{}, nil, err
	}
	for name, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return reach{}, nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return reach{}, nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	server := exec.CommandContext(ctx, program, "--cert-dir", folder, "--listen-address", address,
		"--namespace", namespace)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return reach{}, nil, err
	}
	end := func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		_ = os.RemoveAll(folder)
	}
	for range 100 {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return reach{url: &url.URL{Scheme: "https", Host: address}, ca: pair.Certificate}, end, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	end()
	return reach{}, nil, fmt.Errorf("%s is not reachable on %s", program, address)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
