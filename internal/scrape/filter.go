package scrape

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
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

// AskForCertificate makes a server request client certificates. They are optional, and Filter verifies them.
func AskForCertificate(server *tls.Config) { server.ClientAuth = tls.RequestClientCert }

// Filter restricts access to metrics. A client authenticates with a certificate of an authority that the API server
// accepts, or with a token (TokenReview). It then needs permission to get the path (SubjectAccessReview), which
// PlatformPrometheus always has. The reader must read from the API server.
func Filter(reader client.Reader) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(config *rest.Config, web *http.Client) (metricsserver.Filter, error) {
		who, err := newAuthenticator(config, web, &clientCA{reader: reader, now: time.Now})
		if err != nil {
			return nil, err
		}
		may, err := newAuthorizer(config, web)
		if err != nil {
			return nil, err
		}
		return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
			return guard{log: log, who: who, may: may, handler: handler}, nil
		}, nil
	}
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

func newAuthenticator(config *rest.Config, web *http.Client, ca *clientCA) (authenticator.Request, error) {
	reviews, err := authenticationv1.NewForConfigAndClient(config, web)
	if err != nil {
		return nil, err
	}
	delegating := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		ClientCertificateCAContentProvider: ca,
		CacheTTL:                           tokenTTL,
		TokenAccessReviewClient:            reviews,
		TokenAccessReviewTimeout:           reviewLimit,
		WebhookRetryBackoff:                &reviewRetry,
	}
	who, _, err := delegating.New()
	return renewing{who, ca}, err
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

// guard authenticates and then authorizes a client.
type guard struct {
	log     logr.Logger
	who     authenticator.Request
	may     authorizer.Authorizer
	handler http.Handler
}

// ServeHTTP implements http.Handler.
func (g guard) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	response, ok, err := g.who.AuthenticateRequest(request)
	if err != nil {
		g.log.Info("metrics authentication failed", "cause", err.Error())
	}
	if !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	name := response.User.GetName()
	if !(name == PlatformPrometheus && request.Method == http.MethodGet && request.URL.Path == path) {
		attributes := authorizer.AttributesRecord{User: response.User, Verb: strings.ToLower(request.Method),
			Path: request.URL.Path}
		decision, _, err := g.may.Authorize(request.Context(), attributes)
		if err != nil {
			g.log.Error(err, "metrics authorization failed", "user", name)
			http.Error(w, "Authorization of "+name+" failed", http.StatusInternalServerError)
			return
		}
		if decision != authorizer.DecisionAllow {
			http.Error(w, name+" may not "+attributes.Verb+" "+attributes.Path, http.StatusForbidden)
			return
		}
	}
	g.handler.ServeHTTP(w, request)
}
