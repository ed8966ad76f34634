package scrape

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lvm-storage/lvm-operator/internal/tls/httpserver"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
)

// PlatformPrometheus is the user in the client certificate of OpenShift's own Prometheus. It may read metrics without a
// request to the API server, as in all components of the platform: metrics are most important when the API server does
// not answer.
const PlatformPrometheus = "system:serviceaccount:openshift-monitoring:prometheus-k8s"

const (
	path = "/metrics"
	// How long an answer of the API server is cached.
	tokenTTL = time.Minute
	allowTTL = 5 * time.Minute
	denyTTL  = 30 * time.Second
	// reviewLimit is the timeout of one TokenReview.
	reviewLimit = 10 * time.Second
)

// reviewRetry limits the attempts for one review to about four seconds.
var reviewRetry = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// reviews limit the requests that the API server must decide about. A new Prometheus is authorized with its first
// request, and then has a rate of its own. Others send as much as they like: from one Pod, an agent asks the API server
// once in ten seconds.
var reviews = limit.ReviewOptions{
	Strangers: limit.Rate{Interval: 2 * time.Second, Burst: 10},
	Stranger:  limit.Rate{Interval: 10 * time.Second, Burst: 5},
	Known:     limit.Rate{Interval: time.Second, Burst: 30},
}

const (
	// maxAnswers is the maximum number of answers at the same time, userAnswers that of one user.
	maxAnswers  = 16
	userAnswers = 8
	// maxConnections and peerConnections limit connections. A Prometheus has one or two.
	maxConnections  = 128
	peerConnections = 16
	// readLimit is the time to receive a request, which has no body, and writeLimit that for the answer.
	readLimit  = 10 * time.Second
	writeLimit = time.Minute
)

// Options configure the server of metrics.
type Options struct {
	// Address is the TCP address to listen on.
	Address string
	// TLS are options of the TLS configuration. One of them sets the certificate.
	TLS []func(*tls.Config)
	// Reader reads from the API server.
	Reader client.Reader
	// Config and HTTP are those of a client of the API server.
	Config *rest.Config
	HTTP   *http.Client
	// Metrics are what is served.
	Metrics prometheus.Gatherer
}

// NewServer returns a server of metrics. It listens, and serves when the manager starts, before its caches have
// objects.
//
// A client authenticates with a certificate of an authority that the API server accepts, or with a token (TokenReview).
// It then needs permission to get the path (SubjectAccessReview), which PlatformPrometheus always has.
func NewServer(ctx context.Context, o Options) (*manager.Server, error) {
	metrics := http.NewServeMux()
	metrics.Handle(path, promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError}))
	guarded, err := newGuard(o, metrics)
	if err != nil {
		return nil, err
	}
	// Client certificates are optional, and the guard verifies them.
	config := &tls.Config{ClientAuth: tls.RequestClientCert}
	for _, option := range o.TLS {
		option(config)
	}
	return httpserver.New(httpserver.Options{Name: "metrics", Address: o.Address, TLS: config, Handler: guarded,
		All: maxConnections, Peer: peerConnections, Read: readLimit, Write: writeLimit}).Early(ctx)
}

// renewing is an authenticator that reads the authorities of client certificates again if the verification of a
// certificate fails.
type renewing struct {
	authenticator.Request
	ca *clientCA
}

// AuthenticateRequest implements authenticator.Request.
func (r renewing) AuthenticateRequest(request *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := r.Request.AuthenticateRequest(request)
	if !ok && request.TLS != nil && len(request.TLS.PeerCertificates) > 0 && r.ca.renew() {
		return r.Request.AuthenticateRequest(request)
	}
	return response, ok, err
}

// newCertificates returns what authenticates client certificates, without a request to the API server.
func newCertificates(ca *clientCA) (authenticator.Request, error) {
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		ClientCertificateCAContentProvider: ca,
	}.New()
	return renewing{who, ca}, err
}

// newTokens returns what authenticates tokens, with requests to the API server.
func newTokens(config *rest.Config, web *http.Client) (authenticator.Request, error) {
	reviews, err := authenticationv1.NewForConfigAndClient(config, web)
	if err != nil {
		return nil, err
	}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: false},
		CacheTTL:                 tokenTTL,
		TokenAccessReviewClient:  reviews,
		TokenAccessReviewTimeout: reviewLimit,
		WebhookRetryBackoff:      &reviewRetry,
	}.New()
	return who, err
}

func newAuthorizer(config *rest.Config, web *http.Client) (authorizer.Authorizer, error) {
	reviews, err := authorizationv1.NewForConfigAndClient(config, web)
	if err != nil {
		return nil, err
	}
	delegating := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews, AllowCacheTTL: allowTTL, DenyCacheTTL: denyTTL,
		WebhookRetryBackoff: &reviewRetry,
	}
	return delegating.New()
}

// guard authenticates and then authorizes a client. What it can decide itself comes first, and then the limits of
// requests to the API server.
type guard struct {
	log                  logr.Logger
	certificates, tokens authenticator.Request
	may                  authorizer.Authorizer
	reviews              *limit.Reviews
	answers              *limit.Shares
	handler              http.Handler
	// failures limits what is logged about clients that nobody knows.
	failures rate.Sometimes
}

func newGuard(o Options, handler http.Handler) (*guard, error) {
	certificates, err := newCertificates(&clientCA{reader: o.Reader, now: time.Now})
	if err != nil {
		return nil, err
	}
	tokens, err := newTokens(o.Config, o.HTTP)
	if err != nil {
		return nil, err
	}
	may, err := newAuthorizer(o.Config, o.HTTP)
	if err != nil {
		return nil, err
	}
	return &guard{log: log.Log.WithName("metrics"), certificates: certificates, tokens: tokens, may: may,
		reviews: limit.NewReviews(reviews), answers: limit.NewShares(maxAnswers, userAnswers), handler: handler,
		failures: rate.Sometimes{First: 10, Interval: time.Minute}}, nil
}

// refusal is the answer to a client that may not read metrics.
type refusal struct {
	code int
	text string
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	name, refused := g.authorize(request)
	if refused == nil {
		leave, err := g.answers.Try(name)
		if err == nil {
			defer leave()
			g.handler.ServeHTTP(w, request)
			return
		}
		refused = tooMany(err)
	}
	if refused.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "10")
	}
	http.Error(w, refused.text, refused.code)
}

func tooMany(err error) *refusal { return &refusal{http.StatusTooManyRequests, err.Error()} }

// authorize returns the user that may send a request.
func (g *guard) authorize(request *http.Request) (name string, refused *refusal) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return "", &refusal{http.StatusMethodNotAllowed, "Method Not Allowed"}
	}
	if request.URL.Path != path {
		return "", &refusal{http.StatusNotFound, "Not Found"}
	}
	client := g.authenticate(g.certificates, request)
	if client != nil && isPlatform(client, request) {
		return client.GetName(), nil
	}
	credential, ok := credentialOf(request, client)
	if !ok {
		return "", &refusal{http.StatusUnauthorized, "Unauthorized"}
	}
	end, err := g.reviews.Begin(request.Context(), limit.Peer(request.RemoteAddr), credential)
	if err != nil {
		return "", tooMany(err)
	}
	defer func() { end(refused == nil) }()
	if client == nil {
		client = g.authenticate(g.tokens, request)
	}
	if client == nil {
		return "", &refusal{http.StatusUnauthorized, "Unauthorized"}
	}
	return client.GetName(), g.permit(client, request)
}

// authenticate returns the user that sent a request, or nil.
func (g *guard) authenticate(who authenticator.Request, request *http.Request) user.Info {
	response, ok, err := who.AuthenticateRequest(request)
	if err != nil {
		g.failures.Do(func() { g.log.Info("metrics authentication failed", "cause", err.Error()) })
	}
	if !ok {
		return nil
	}
	return response.User
}

// credentialOf returns the certificate of a client that is authenticated, or the token of another one. It returns false
// if it has no token.
func credentialOf(request *http.Request, authenticated user.Info) (limit.Credential, bool) {
	if authenticated != nil {
		return limit.Hash(request.TLS.PeerCertificates[0].Raw), true
	}
	token := request.Header.Get("Authorization")
	return limit.Hash([]byte(token)), token != ""
}

func isPlatform(client user.Info, request *http.Request) bool {
	return client.GetName() == PlatformPrometheus && request.Method == http.MethodGet
}

// permit returns a refusal unless a user has permission to send a request.
func (g *guard) permit(client user.Info, request *http.Request) *refusal {
	if isPlatform(client, request) {
		return nil
	}
	name := client.GetName()
	attributes := authorizer.AttributesRecord{User: client, Verb: strings.ToLower(request.Method),
		Path: request.URL.Path}
	decision, _, err := g.may.Authorize(request.Context(), attributes)
	if err != nil {
		g.log.Error(err, "metrics authorization failed", "user", name)
		return &refusal{http.StatusInternalServerError, "Authorization of " + name + " failed"}
	}
	if decision != authorizer.DecisionAllow {
		return &refusal{http.StatusForbidden, name + " may not " + attributes.Verb + " " + attributes.Path}
	}
	return nil
}
