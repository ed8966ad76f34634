// Program flood sends requests without valid credentials to a port of the product, as fast as it can, and counts the
// answers. It runs in the Pod of a tenant, until a file exists.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Modes of the program.
const (
	// metrics reads metrics, with another token in each request.
	metrics = "metrics"
	// grpc calls a method of gRPC, with another token in each request.
	grpc = "grpc"
)

// emptyMessage is a message of gRPC without fields: not compressed, of length 0.
var emptyMessage = []byte{0, 0, 0, 0, 0}

const (
	// patience is the time limit of a request. A client that is too fast may have to wait.
	patience = 20 * time.Second
	// limit is the time limit of the program.
	limit = 10 * time.Minute
)

func main() {
	mode := flag.String("mode", metrics, "what is sent: metrics or grpc")
	target := flag.String("target", "", "address, HOST:PORT")
	method := flag.String("method", "", "method of gRPC, /SERVICE/METHOD")
	workers := flag.Int("workers", 4, "number of requests at the same time")
	stop := flag.String("until", "", "file whose existence ends the program")
	flag.Parse()
	f := &flood{mode: *mode, url: "https://" + *target, answers: map[string]int{}}
	if *mode == metrics {
		f.url += "/metrics"
	} else {
		f.url += *method
	}
	f.run(*workers, *stop)
	if err := json.NewEncoder(os.Stdout).Encode(f.answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type flood struct {
	mode, url string

	mu sync.Mutex
	// answers are the numbers of answers of each kind.
	answers map[string]int
}

// run sends requests from several workers. Each has a connection of its own.
func (f *flood) run(workers int, stop string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			web := &http.Client{Timeout: patience, Transport: &http.Transport{ForceAttemptHTTP2: f.mode == grpc,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			for ctx.Err() == nil && !exists(stop) {
				answer := f.send(web)
				f.mu.Lock()
				f.answers[answer]++
				f.mu.Unlock()
			}
		})
	}
	all.Wait()
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// send sends a request, and returns the kind of the answer: the status of HTTP or gRPC, or why there was none.
func (f *flood) send(web *http.Client) string {
	method := http.MethodGet
	var body io.Reader
	if f.mode == grpc {
		method = http.MethodPost
		body = bytes.NewReader(emptyMessage)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, f.url, body)
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+rand.Text())
	if f.mode == grpc {
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Te", "trailers")
	}
	response, err := web.Do(request)
	if err != nil {
		return kindOf(err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return kindOf(err)
	}
	if f.mode == grpc {
		return "gRPC " + response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status")
	}
	return fmt.Sprint("HTTP ", response.StatusCode)
}

// kindOf returns why there was no answer: the server demands a certificate, ends connections, or is too slow.
func kindOf(err error) string {
	var alert tls.AlertError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &alert):
		return "TLS " + alert.Error()
	case strings.Contains(err.Error(), "remote error: tls: "):
		_, alert, _ := strings.Cut(err.Error(), "remote error: tls: ")
		return "TLS " + alert
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "connection ended"
}
