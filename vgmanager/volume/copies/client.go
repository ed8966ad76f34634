package copies

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

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/agentpod"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
)

const (
	// dialLimit is the time to connect, and answerLimit that until the source answers: it may have to create a snapshot
	// first.
	dialLimit   = 10 * time.Second
	answerLimit = 2 * time.Minute
	// maxMessage is the number of bytes of an error message that are read.
	maxMessage = 4 << 10
)

// Agents finds the agents of other nodes.
type Agents struct {
	// Live reads from the API server.
	Live client.Reader
	// Namespace is that of the agents.
	Namespace string
	// Credentials are those of this agent.
	Credentials mutualtls.Source
}

// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=pods,verbs=list

// Of returns the agent of a node, at the address of its Pod. Another program at this address is not accepted: the agent
// must have the certificate of the node.
func (a *Agents) Of(ctx context.Context, node string) (Source, error) {
	address, err := agentpod.Address(ctx, a.Live, a.Namespace, node, wellknown.PeerPort)
	if err != nil {
		return nil, fmt.Errorf("find the node agent of %s: %w", node, err)
	}
	return &agent{node: node, address: address, credentials: a.Credentials}, nil
}

// agent is the agent of a node, which serves at address, HOST:PORT. The credentials are those of this agent.
type agent struct {
	node, address string
	credentials   mutualtls.Source
}

// Stream is what a source sends.
type Stream struct {
	io.ReadCloser
	description
}

// Data implements Source.
func (a *agent) Data(ctx context.Context, r Request) (*Stream, error) {
	query := r.query()
	query.Set("from", strconv.FormatUint(r.From, 10))
	return a.get(ctx, r.Target, "data", query)
}

// Sums implements Source.
func (a *agent) Sums(ctx context.Context, r Request) (*Stream, error) {
	return a.get(ctx, r.Target, "sums", r.query())
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
func (a *agent) get(ctx context.Context, target, what string, query url.Values) (*Stream, error) {
	stream, err := a.request(ctx, target, what, query)
	if err != nil {
		return nil, fmt.Errorf("request the %s for %s from the node agent of %s: %w", what, target, a.node, err)
	}
	return stream, nil
}

func (a *agent) request(ctx context.Context, target, what string, query url.Values) (*Stream, error) {
	config, err := mutualtls.ClientOfNode(a.credentials, a.node)
	if err != nil {
		return nil, err
	}
	// The connection is closed with the stream: the credentials of the next one may differ.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true,
		TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: answerLimit, DialContext: dial}
	address := url.URL{Scheme: "https", Host: a.address, Path: "/v1/copies/" + target + "/" + what,
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
	stream := &Stream{ReadCloser: response.Body}
	if err := stream.read(response.Header); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return stream, nil
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
