// Program preview shows the dashboard of OpenShift's console with made-up data of a day, as a file for a browser. It starts a Prometheus
// of its own. It fails where a panel shows nothing.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "", "file to write")
	rules := flag.String("rules", "monitoring/tests/rules.yaml", "rules to record")
	flag.Parse()
	if err := run(*out, *rules); err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(1)
	}
	fmt.Println(*out)
}

func run(out, rules string) (err error) {
	folder, err := os.MkdirTemp("", "preview")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	end := time.Now().Truncate(step)
	data := filepath.Join(folder, "data")
	if err := makeBlocks(folder, data, end); err != nil {
		return err
	}
	record := func(url string) error {
		return promtool("tsdb", "create-blocks-from", "rules", "--url", url, "--start", fmt.Sprint(end.Add(-day).Unix()), "--end", fmt.Sprint(end.Unix()),
			"--eval-interval", "1m", "--output-dir", data, rules)
	}
	if err := withPrometheus(folder, data, record); err != nil {
		return err
	}
	// It reads the new blocks at its start.
	return withPrometheus(folder, data, func(url string) error {
		b := newBrowser(url, end)
		page, err := b.page()
		if err != nil {
			return err
		}
		if len(b.empty) > 0 {
			err = fmt.Errorf("there is no data for: %s", strings.Join(b.empty, "; "))
		}
		return errors.Join(err, os.MkdirAll(filepath.Dir(out), 0o755), os.WriteFile(out, page, 0o644))
	})
}

func makeBlocks(folder, data string, end time.Time) error {
	file, err := os.Create(filepath.Join(folder, "samples"))
	if err != nil {
		return err
	}
	buffer := bufio.NewWriter(file)
	writeSamples(buffer, end)
	if err := errors.Join(buffer.Flush(), file.Close()); err != nil {
		return err
	}
	return promtool("tsdb", "create-blocks-from", "openmetrics", file.Name(), data)
}

func promtool(args ...string) error {
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("promtool %v: %w (Debian's package prometheus has it)\n%s", args, err, out)
	}
	return nil
}

// withPrometheus runs a Prometheus that scrapes nothing, as long as use does.
func withPrometheus(folder, data string, use func(url string) error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	config := filepath.Join(folder, "prometheus.yml")
	if err := errors.Join(listener.Close(), os.WriteFile(config, []byte("global: {}\n"), 0o600)); err != nil {
		return err
	}
	server := exec.Command("prometheus", "--config.file", config, "--storage.tsdb.path", data, "--web.listen-address", address, "--log.level", "error")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}()
	url := "http://" + address
	for range 300 {
		if response, err := http.Get(url + "/-/ready"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return use(url)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("prometheus at %s is not ready after 30 s", url)
}
