package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/mutualtls"
)

const (
	// dialLimit is the time to connect, and answerLimit that until the source answers: it may have to create a snapshot
	// first.
	dialLimit   = 10 * time.Second
	answerLimit = 2 * time.Minute
	// maxMessage is the number of bytes of an error message that are read.
	maxMessage = 4 << 10
)

// Client asks the agent of one node.
type Client struct {
	// Node is the node of the source. Address is where its agent serves, HOST:PORT.
	Node, Address string
	// Credentials are those of this agent.
	Credentials mutualtls.Source
}

// Stream is what a source sends.
type Stream struct {
	io.ReadCloser
	// Size is the size of the source in bytes.
	Size uint64
	// BaseSize is the size of the base in bytes, 0 without one.
	BaseSize uint64
	// Allocated is how many bytes of a thin volume have blocks in its pool, 0 for a thick one, or if the agent of the
	// source is of a version that does not say so.
	Allocated uint64
	// Content are the tags of the source that describe its content, as the source says.
	Content []string
}

// Data returns the data for a target from an offset on. The caller closes it.
func (c *Client) Data(ctx context.Context, r Request) (*Stream, error) {
	query := r.query()
	query.Set("from", strconv.FormatUint(r.From, 10))
	return c.get(ctx, r.Target, "data", query)
}

// Sums returns the checksums of all of the data for a target. The caller closes it.
func (c *Client) Sums(ctx context.Context, r Request) (*Stream, error) {
	return c.get(ctx, r.Target, "sums", r.query())
}

func (r Request) query() url.Values {
	query := url.Values{}
	for key, value := range map[string]string{"source": r.Source, "base": r.Base} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return query
}

// get returns the answer to a request. An error wraps ErrForbidden or ErrGone if the source says so.
func (c *Client) get(ctx context.Context, target, what string, query url.Values) (*Stream, error) {
	stream, err := c.request(ctx, target, what, query)
	if err != nil {
		return nil, fmt.Errorf("request the %s for %s from the node agent of %s: %w", what, target, c.Node, err)
	}
	return stream, nil
}

func (c *Client) request(ctx context.Context, target, what string, query url.Values) (*Stream, error) {
	config, err := mutualtls.ClientOfNode(c.Credentials, c.Node)
	if err != nil {
		return nil, err
	}
	// The connection is closed with the stream: the credentials of the next one may differ.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true,
		TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: answerLimit, DialContext: dial}
	address := url.URL{Scheme: "https", Host: c.Address, Path: "/v1/copies/" + target + "/" + what,
		RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%w: check that the node is running, and its vg-manager Pod", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(refusal(response), response.Body.Close())
	}
	stream := &Stream{ReadCloser: response.Body, Content: response.Header.Values(contentHeader)}
	if err := stream.read(response.Header); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return stream, nil
}

// read reads the sizes in the header of an answer.
func (s *Stream) read(header http.Header) error {
	for _, field := range []struct {
		name     string
		value    *uint64
		required bool
	}{{sizeHeader, &s.Size, true}, {baseSizeHeader, &s.BaseSize, false}, {allocatedHeader, &s.Allocated, false}} {
		text := header.Get(field.name)
		if text == "" && !field.required {
			continue
		}
		size, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the field %s of the answer: %w", field.name, err)
		}
		*field.value = size
	}
	return nil
}

func refusal(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
	message := strings.TrimSpace(string(text))
	switch response.StatusCode {
	case http.StatusForbidden:
		err = errors.Join(ErrForbidden, err)
	case http.StatusGone:
		err = errors.Join(ErrGone, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %s", err, response.Status, message)
	}
	return fmt.Errorf("%s: %s", response.Status, message)
}

// dial connects. The kernel closes the connection if the node of the source does not answer for about a minute.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialLimit, KeepAliveConfig: net.KeepAliveConfig{Enable: true,
		Idle: stallLimit / 2, Interval: stallLimit / 6, Count: 3}}).DialContext(ctx, network, address)
}
