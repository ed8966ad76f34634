package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func testHandler(limit int64) http.Handler {
	h := &handler{divisors: Divisors{Default: 1, Classes: map[string]float64{"dc1": 1}}, log: logr.Discard(),
		slots: make(chan struct{}, 1), maxBody: limit}
	return h.routes()
}

// post sends a request and returns the status code and the body of the response.
func post(t *testing.T, path string, body io.Reader) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	testHandler(1<<20).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, body))
	return w.Code, w.Body.String()
}

// twoNodes are the arguments of the test of TopoLVM v0.41 (internal/scheduler/route_test.go).
var twoNodes = extenderv1.ExtenderArgs{
	Pod: podWith(capacities{"dc1": strconv.FormatInt(3*gib, 10)}),
	Nodes: &corev1.NodeList{Items: []corev1.Node{
		nodeWith("10.1.1.1", inGiB(2, 10, 10)), nodeWith("10.1.1.2", inGiB(5, 10, 10)),
	}},
}

// encode returns arguments in JSON. kube-scheduler encodes them with the same types.
func encode(t *testing.T, args extenderv1.ExtenderArgs) *bytes.Reader {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(data)
}

func TestPredicate(t *testing.T) {
	code, body := post(t, "/predicate", encode(t, twoNodes))
	result := extenderv1.ExtenderFilterResult{}
	if err := json.Unmarshal([]byte(body), &result); err != nil || code != http.StatusOK {
		t.Fatal(code, err, body)
	}
	if got := namesOf(result.Nodes); !reflect.DeepEqual(got, []string{"10.1.1.2"}) {
		t.Errorf("passed %q", got)
	}
	if got := result.FailedNodes["10.1.1.1"]; got != "out of VG free space" || result.Error != "" {
		t.Errorf("failed %v, error %q", result.FailedNodes, result.Error)
	}
}

func TestPrioritize(t *testing.T) {
	code, body := post(t, "/prioritize", encode(t, twoNodes))
	result := extenderv1.HostPriorityList{}
	if err := json.Unmarshal([]byte(body), &result); err != nil || code != http.StatusOK {
		t.Fatal(code, err, body)
	}
	want := extenderv1.HostPriorityList{{Host: "10.1.1.1", Score: 1}, {Host: "10.1.1.2", Score: 2}}
	if !reflect.DeepEqual(result, want) {
		t.Errorf("got %v, want %v", result, want)
	}
}

// TopoLVM's extender decodes lower-case keys too, as older schedulers sent them.
func TestKeysInLowerCaseAreRead(t *testing.T) {
	const body = `{"pod": {"metadata": {"annotations": {"capacity.topolvm.io/dc1": "1"}}}, "nodes": {"items": [{"metadata": {"name": "a"}}]}}`
	if code, got := post(t, "/predicate", strings.NewReader(body)); code != http.StatusOK ||
		!strings.Contains(got, noCapacity) {
		t.Errorf("got %d %s", code, got)
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestRequestsThatCannotBeAnswered(t *testing.T) {
	pod := podWith(capacities{"dc1": "1"})
	names := &[]string{"a", "b"}
	for name, test := range map[string]struct {
		path string
		body io.Reader
		code int
		want string
	}{
		"predicate without a body":  {"/predicate", nil, http.StatusBadRequest, "not JSON"},
		"prioritize without a body": {"/prioritize", nil, http.StatusBadRequest, "not JSON"},
		"predicate without a Pod": {"/predicate", encode(t, extenderv1.ExtenderArgs{Nodes: twoNodes.Nodes}),
			http.StatusBadRequest, "no Pod"},
		"prioritize without a Pod": {"/prioritize", encode(t, extenderv1.ExtenderArgs{Nodes: twoNodes.Nodes}),
			http.StatusBadRequest, "no Pod"},
		// kube-scheduler shows the error in the event of the Pod; of another code it shows only the number.
		"predicate without nodes": {"/predicate", encode(t, extenderv1.ExtenderArgs{Pod: pod}), http.StatusOK, `"Error":"the request has no nodes`},
		"predicate with names of nodes": {"/predicate", encode(t, extenderv1.ExtenderArgs{Pod: pod,
			NodeNames: names}), http.StatusOK, "nodeCacheCapable: false"},
		"prioritize with names of nodes": {"/prioritize", encode(t, extenderv1.ExtenderArgs{Pod: pod,
			NodeNames: names}), http.StatusBadRequest, "nodeCacheCapable: false"},
		"a body that cannot be read":      {"/predicate", brokenBody{}, http.StatusBadRequest, "connection reset"},
		"a body of another kind":          {"/predicate", strings.NewReader("[1]"), http.StatusBadRequest, "not JSON"},
		"a body that is too large":        {"/predicate", strings.NewReader(`{"Pod": "` + strings.Repeat("x", 1<<20)), http.StatusRequestEntityTooLarge, "too large"},
		"a path that does not exist":      {"/bind", nil, http.StatusNotFound, ""},
		"a path that only has a GET verb": {"/status", nil, http.StatusMethodNotAllowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := post(t, test.path, test.body)
			if code != test.code || !strings.Contains(body, test.want) {
				t.Errorf("got %d %s, want %d %q", code, body, test.code, test.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	w := httptest.NewRecorder()
	NewHandler(Divisors{Default: 1}, logr.Discard()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	if w.Code != http.StatusOK || w.Body.String() != "ok" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestARequestThatWaitsEndsWithTheScheduler(t *testing.T) {
	h := &handler{log: logr.Discard(), slots: make(chan struct{}), maxBody: 1 << 20} // No slot is ever free.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.routes().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/predicate", encode(t, twoNodes)))
	if w.Body.Len() > 0 {
		t.Errorf("answered %s", w.Body)
	}
}
