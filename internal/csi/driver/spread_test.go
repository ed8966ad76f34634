package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// roomy returns a node that offers mebibytes of the class ssd.
func roomy(name string, room int64) client.Object {
	return offering(name, map[string]string{"ssd": fmt.Sprint(room * mebi)})
}

// grouped creates a claim in the spread group "web", and returns the request for its volume pvc-NAME. With nodes, the
// scheduler has selected the first one.
func (c *cluster) grouped(name, scope, policy string, nodes ...string) *csi.CreateVolumeRequest {
	c.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		UID: types.UID(name), Labels: map[string]string{wellknown.SpreadGroupLabel: "web", wellknown.SpreadLabel: scope,
			wellknown.SpreadPolicyLabel: policy}}}
	if len(nodes) > 0 {
		claim.Annotations = map[string]string{selectedNode: nodes[0]}
	}
	c.must(c.api.Create(c.Context(), claim))
	request := wanted("pvc-"+name, 80*mebi, nodes...)
	request.Parameters[service.ClaimNameKey] = name
	return request
}

// wantNode creates a volume and compares its node.
func (c *cluster) wantNode(what string, request *csi.CreateVolumeRequest, want string) {
	c.Helper()
	response, err := c.server.CreateVolume(c.Context(), request)
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
	topology := response.GetVolume().GetAccessibleTopology()
	if got := topology[0].GetSegments()[wellknown.TopologyNodeKey]; len(topology) != 1 || got != want {
		c.Errorf("%s: got %v, want %s", what, got, want)
	}
}

// wantRefusal creates a volume, which fails with a message that contains all texts and leaves no LogicalVolume.
func (c *cluster) wantRefusal(what string, request *csi.CreateVolumeRequest, code codes.Code, texts ...string) {
	c.Helper()
	_, err := c.server.CreateVolume(c.Context(), request)
	wantCode(c.T, what, err, code)
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			c.Errorf("%s: %v does not contain %q", what, err, text)
		}
	}
	if c.get(request.GetName()) != nil {
		c.Errorf("%s: the LogicalVolume exists", what)
	}
}

const (
	required  = wellknown.SpreadRequired
	preferred = wellknown.SpreadPreferred
	byNode    = wellknown.SpreadNode
	byDevice  = wellknown.SpreadDevice
)

func TestAVolumeRecordsItsSpread(t *testing.T) {
	c := newCluster(t, roomy("node1", 1000))
	for _, scope := range []string{byNode, byDevice} { // which is also the name of the volume's node
		c.wantNode(scope, c.grouped(scope, scope, required, scope), scope)
		lv := c.get("pvc-" + scope)
		want := view.Spread{Group: "ns/web", Scope: scope, Policy: required}
		if got := lv.Annotations[wellknown.SpreadAnnotation]; got != want.String() {
			t.Errorf("got the annotation %q", got)
		}
		if got := lv.Labels[wellknown.SpreadGroupHashLabel]; got != want.GroupHash() || len(got) != 32 {
			t.Errorf("got the label %q", got)
		}
	}
	c.wantNode("a claim without labels", wanted("pvc-other", 80*mebi, "node1"), "node1")
	lv := c.get("pvc-other")
	if lv.Annotations[wellknown.SpreadAnnotation] != "" || lv.Labels[wellknown.SpreadGroupHashLabel] != "" {
		t.Errorf("got %v", lv.ObjectMeta)
	}
}

func TestImmediateBindingSpreadsOverNodes(t *testing.T) {
	for policy, third := range map[string]string{required: "", preferred: "node1"} {
		c := newCluster(t, roomy("node1", 9000), roomy("node2", 1000), roomy("node3", 10))
		c.wantNode("the first volume", c.grouped("a", byNode, policy), "node1")
		c.wantNode("the second", c.grouped("b", byNode, policy), "node2")
		c.wantNode("the second, called again", wantedFor("b"), "node2")
		request := c.grouped("c", byNode, policy)
		if third != "" {
			c.wantNode("the third", request, third)
			continue
		}
		for range 2 {
			c.wantRefusal("the third", request, codes.ResourceExhausted, "ns/web",
				"node1 has volume pvc-a of claim ns/a", "node2 has volume pvc-b of claim ns/b", "add a node")
		}
		c.must(c.api.Create(t.Context(), roomy("node4", 100)))
		c.must(c.api.Create(t.Context(), registered("node4")))
		c.wantNode("the third, with another node", request, "node4")
	}
}

// wantedFor returns the request for the volume of a claim that exists.
func wantedFor(name string, nodes ...string) *csi.CreateVolumeRequest {
	request := wanted("pvc-"+name, 80*mebi, nodes...)
	request.Parameters[service.ClaimNameKey] = name
	return request
}

func TestASchedulersChoiceThatIsNotApart(t *testing.T) {
	c := newCluster(t, roomy("node1", 9000), roomy("node2", 1000))
	c.wantNode("the first volume", c.grouped("a", byNode, required, "node1", "node2"), "node1")
	request := c.grouped("b", byNode, required, "node1", "node2")
	for range 2 {
		c.wantRefusal("the same node", request, codes.ResourceExhausted, "node node1 has volume pvc-a of claim ns/a",
			"spread group ns/web", "topologySpreadConstraints")
	}
	c.wantNode("preferred", c.grouped("c", byNode, preferred, "node1", "node2"), "node1")
	c.wantNode("the scheduler selects again", wantedFor("b", "node2", "node1"), "node2")
	c.wantNode("kept apart by the device", c.grouped("d", byDevice, required, "node2"), "node2")
}

func TestACopyIsNotApartFromItsSource(t *testing.T) {
	c := newCluster(t, roomy("node1", 9000), roomy("node2", 1000))
	c.wantNode("the source", c.grouped("a", byNode, required, "node1"), "node1")
	copied := func(request *csi.CreateVolumeRequest) *csi.CreateVolumeRequest {
		request.VolumeContentSource = copyOf("", string(c.get("pvc-a").UID), 0).GetVolumeContentSource()
		return request
	}
	here := copied(c.grouped("b", byNode, required, "node1"))
	here.Parameters[wellknown.SourcePlacementParameter] = wellknown.SourceNodeOnly
	c.wantRefusal("required", here, codes.ResourceExhausted,
		"copy of pvc-a", "claim ns/a", "ns/web", wellknown.SpreadPolicyLabel)
	here.Parameters[wellknown.SourcePlacementParameter] = wellknown.PreferSourceNode
	here.AccessibilityRequirements = on("node2", "node1")
	c.wantNode("elsewhere", here, "node2")
	c.wantNode("preferred", copied(c.grouped("c", byNode, preferred, "node1")), "node1")
	c.wantNode("called again", copied(wantedFor("c", "node1")), "node1")
	c.wantNode("another group", copied(wantedFor("without-labels", "node1")), "node1")
}

func TestLabelsThatAreNotValid(t *testing.T) {
	c := newCluster(t, roomy("node1", 1000))
	for i, labels := range [][2]string{{"rack", required}, {byNode, "always"}} {
		c.wantRefusal(labels[0], c.grouped(fmt.Sprint("bad-", i), labels[0], labels[1], "node1"), codes.InvalidArgument,
			fmt.Sprint("claim ns/bad-", i))
	}
	// The volume exists, so it must not be forgotten: the provisioner takes InvalidArgument for "nothing was created".
	c.wantNode("valid labels", c.grouped("good", byNode, required, "node1"), "node1")
	before := c.get("pvc-good")
	claim := &corev1.PersistentVolumeClaim{}
	c.must(c.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "good"}, claim))
	for _, labels := range []map[string]string{
		{wellknown.SpreadGroupLabel: "web", wellknown.SpreadLabel: "rack"}, {wellknown.SpreadGroupLabel: "other"}, nil} {
		claim.Labels = labels
		c.must(c.api.Update(t.Context(), claim))
		c.wantNode("other labels", wantedFor("good", "node1"), "node1")
		if after := c.get("pvc-good"); !maps.Equal(after.Annotations, before.Annotations) ||
			!maps.Equal(after.Labels, before.Labels) {
			t.Errorf("%v: got %v, %v", labels, after.Annotations, after.Labels)
		}
	}
}

// failingClaims cannot read claims.
type failingClaims struct{ client.Client }

func (f failingClaims) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	options ...client.GetOption) error {
	if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
		return errors.New("no answer")
	}
	return f.Client.Get(ctx, key, o, options...)
}

func TestSpreadIsNotKnown(t *testing.T) {
	c := newCluster(t, roomy("node1", 1000))
	request := c.grouped("a", byNode, required, "node1")
	c.fail["list"] = errors.New("no answer")
	c.wantRefusal("the volumes of the group cannot be read", request, codes.Unavailable, "spread group ns/web",
		"no answer")
	delete(c.fail, "list")
	c.server.volumes.Client = failingClaims{c.server.volumes.Client}
	c.wantRefusal("the claim cannot be read", request, codes.Unavailable, "claim ns/a", "no answer")
}

// The agents do not answer, so all volumes are created at the same time.
func TestVolumesOfAGroupThatComeTogether(t *testing.T) {
	for name, nodes := range map[string][]string{"Immediate": nil, "scheduled": {"node1"}} {
		c := newCluster(t, roomy("node1", 9000), roomy("node2", 8000), roomy("node3", 7000))
		const volumes = 3
		var calls sync.WaitGroup
		errs := make(chan error, volumes)
		for i := range volumes {
			request := c.grouped(fmt.Sprint("claim-", i), byNode, required, nodes...)
			calls.Go(func() {
				_, err := c.server.CreateVolume(t.Context(), request)
				errs <- err
			})
		}
		calls.Wait()
		close(errs)
		refused := 0
		for err := range errs {
			switch status.Code(err) {
			case codes.OK:
			case codes.ResourceExhausted:
				refused++
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
		count := map[string]int{}
		list := &topolvmv1.LogicalVolumeList{}
		c.must(c.api.List(t.Context(), list))
		for i := range list.Items {
			count[list.Items[i].Spec.NodeName]++
		}
		want := map[string]int{"node1": 1, "node2": 1, "node3": 1}
		if nodes != nil {
			want = map[string]int{"node1": 1}
		}
		if !maps.Equal(count, want) || refused != volumes-len(want) {
			t.Errorf("%s: got %v, %d refused", name, count, refused)
		}
		// No lock is left: the next call gets an answer.
		c.wantRefusal(name, c.grouped("next", byNode, required, nodes...), codes.ResourceExhausted, "ns/web")
	}
}
