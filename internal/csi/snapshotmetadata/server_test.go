package snapshotmetadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/api"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/internal/cluster/agentpod"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

const (
	audience = "snapshot-metadata.topolvm.io"
	token    = "the-secret-token"
	handle   = "volume-1"
)

// world is a server with a fake API server and a node agent. Tests change the objects before they call connect.
type world struct {
	*testing.T
	snapshot *snapshotv1.VolumeSnapshot
	content  *snapshotv1.VolumeSnapshotContent
	lv       *topolvmv1.LogicalVolume
	// authentication and access are the answers to reviews, for the token and the user.
	authentication authenticationv1.TokenReviewStatus
	access         authorizationv1.SubjectAccessReviewStatus
	names          map[string]string // of LogicalVolumes, by volume ID
	readErr        map[string]error  // by Go type of the object
	reviewErr      map[string]error
	dialErr        error
	reviewed       *authorizationv1.SubjectAccessReviewSpec
	dialed         []string
	agent          *agent
	edit           func(*Server) // before it serves; may be nil
	socket         csi.SnapshotMetadataClient
}

func newWorld(t *testing.T) *world {
	user := authenticationv1.UserInfo{Username: "backup-user", UID: "uid", Groups: []string{"group"},
		Extra: map[string]authenticationv1.ExtraValue{"key": {"value"}}}
	return &world{
		T: t,
		snapshot: &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "snap", UID: "snap-uid"},
			Status: &snapshotv1.VolumeSnapshotStatus{ReadyToUse: ptr.To(true),
				BoundVolumeSnapshotContentName: ptr.To("content")}},
		content: &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "content"},
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "topolvm.io",
				VolumeSnapshotRef: corev1.ObjectReference{Namespace: "ns", Name: "snap", UID: "snap-uid"}},
			Status: &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: ptr.To(true),
				SnapshotHandle: ptr.To(handle)}},
		lv: &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "snapshot-1"},
			Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "node-1"},
			Status: topolvmv1.LogicalVolumeStatus{VolumeID: handle}},
		authentication: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience},
			User: user},
		access:    authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		names:     map[string]string{handle: "snapshot-1"},
		readErr:   map[string]error{},
		reviewErr: map[string]error{},
		agent:     &agent{messages: 3},
	}
}

// agent answers with messages of one range each, and then fails with err if it is set.
type agent struct {
	csi.UnimplementedSnapshotMetadataServer
	messages  int
	err       error
	allocated *csi.GetMetadataAllocatedRequest
	delta     *csi.GetMetadataDeltaRequest
	// ended is closed when GetMetadataDelta returns.
	ended chan struct{}
}

func (a *agent) blocks(i int) []*csi.BlockMetadata {
	return []*csi.BlockMetadata{{ByteOffset: int64(i) * 100, SizeBytes: 50}}
}

func (a *agent) GetMetadataAllocated(in *csi.GetMetadataAllocatedRequest,
	out csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	a.allocated = in
	for i := range a.messages {
		if err := out.Send(&csi.GetMetadataAllocatedResponse{VolumeCapacityBytes: 1000,
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, BlockMetadata: a.blocks(i)}); err != nil {
			return err
		}
	}
	return a.err
}

func (a *agent) GetMetadataDelta(in *csi.GetMetadataDeltaRequest,
	out csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	a.delta = in
	if a.ended != nil {
		defer close(a.ended)
	}
	for i := range a.messages {
		if err := out.Send(&csi.GetMetadataDeltaResponse{VolumeCapacityBytes: 1000,
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, BlockMetadata: a.blocks(i)}); err != nil {
			return err
		}
	}
	return a.err
}

// serve starts a gRPC server, and returns a connection to it.
func serve(t *testing.T, register func(*grpc.Server)) func() (*grpc.ClientConn, error) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return func() (*grpc.ClientConn, error) {
		return grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
}

func (w *world) api() client.Client {
	scheme := runtime.NewScheme()
	if err := errors.Join(snapshotv1.AddToScheme(scheme), topolvmv1.AddToScheme(scheme),
		authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		w.Fatal(err)
	}
	var objects []client.Object
	if w.snapshot != nil {
		objects = append(objects, w.snapshot)
	}
	if w.content != nil {
		objects = append(objects, w.content)
	}
	if w.lv != nil {
		objects = append(objects, w.lv)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if err := w.readErr[key.Name]; err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			switch review := o.(type) {
			case *authenticationv1.TokenReview:
				if review.Spec.Token == token && slices.Equal(review.Spec.Audiences, []string{audience}) {
					review.Status = w.authentication
				}
				return w.reviewErr["token"]
			case *authorizationv1.SubjectAccessReview:
				w.reviewed = &review.Spec
				review.Status = w.access
				return w.reviewErr["access"]
			}
			return errors.New("unexpected object")
		},
	}).Build()
}

// connect returns a client of the server.
func (w *world) connect() api.SnapshotMetadataClient {
	w.Helper()
	dial := serve(w.T, func(s *grpc.Server) { csi.RegisterSnapshotMetadataServer(s, w.agent) })
	c := w.api()
	relay := &Relay{Live: c, NameOf: func(id string) string { return w.names[id] },
		Dial: func(_ context.Context, node string) (*grpc.ClientConn, error) {
			w.dialed = append(w.dialed, node)
			if w.dialErr != nil {
				return nil, w.dialErr
			}
			return dial()
		}}
	server := New(Options{Client: c, Live: c, Relay: relay})
	if w.edit != nil {
		w.edit(server)
	}
	connection, err := serve(w.T, func(s *grpc.Server) { api.RegisterSnapshotMetadataServer(s, server) })()
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = connection.Close() })
	return api.NewSnapshotMetadataClient(connection)
}

// response is what both responses have in common.
type response interface {
	GetBlockMetadataType() api.BlockMetadataType
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*api.BlockMetadata
}

// offsets reads a stream to its end, and returns the offsets of its ranges.
func offsets[M response](t *testing.T, receive func() (M, error)) ([]int64, error) {
	t.Helper()
	var list []int64
	for {
		m, err := receive()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if m.GetBlockMetadataType() != api.BlockMetadataType_VARIABLE_LENGTH || m.GetVolumeCapacityBytes() != 1000 {
			t.Errorf("got %s, %d bytes", m.GetBlockMetadataType(), m.GetVolumeCapacityBytes())
		}
		for _, b := range m.GetBlockMetadata() {
			if b.GetSizeBytes() != 50 {
				t.Errorf("a range has %d bytes", b.GetSizeBytes())
			}
			list = append(list, b.GetByteOffset())
		}
	}
}

func (w *world) allocated(in *api.GetMetadataAllocatedRequest) ([]int64, error) {
	w.Helper()
	stream, err := w.connect().GetMetadataAllocated(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	return offsets(w.T, stream.Recv)
}

func (w *world) delta(in *api.GetMetadataDeltaRequest) ([]int64, error) {
	w.Helper()
	stream, err := w.connect().GetMetadataDelta(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	return offsets(w.T, stream.Recv)
}

func request() *api.GetMetadataAllocatedRequest {
	return &api.GetMetadataAllocatedRequest{SecurityToken: token, Namespace: "ns", SnapshotName: "snap"}
}

func TestTheAnswerOfTheAgentIsPassedOn(t *testing.T) {
	w := newWorld(t)
	in := request()
	in.StartingOffset, in.MaxResults = 10, 20
	if got, err := w.allocated(in); err != nil || len(got) != 3 || got[2] != 200 {
		t.Errorf("got %v, %v", got, err)
	}
	if got := w.agent.allocated; got.GetSnapshotId() != handle || got.GetStartingOffset() != 10 ||
		got.GetMaxResults() != 20 || len(got.GetSecrets()) != 0 {
		t.Errorf("the agent got %v", got)
	}
	got, err := w.delta(&api.GetMetadataDeltaRequest{SecurityToken: token, Namespace: "ns", TargetSnapshotName: "snap",
		BaseSnapshotId: "base", StartingOffset: 30, MaxResults: 40})
	if err != nil || len(got) != 3 || got[1] != 100 {
		t.Errorf("got %v, %v", got, err)
	}
	if got := w.agent.delta; got.GetTargetSnapshotId() != handle || got.GetBaseSnapshotId() != "base" ||
		got.GetStartingOffset() != 30 || got.GetMaxResults() != 40 {
		t.Errorf("the agent got %v", got)
	}
	if len(w.dialed) != 2 || w.dialed[0] != "node-1" || w.dialed[1] != "node-1" {
		t.Errorf("dialed %q", w.dialed)
	}
	r := w.reviewed
	expect.Equal(t, "User", r.User, "backup-user")
	expect.Equal(t, "UID", r.UID, "uid")
	expect.Equal(t, "len(r.Groups)", len(r.Groups), 1)
	expect.Equal(t, `Extra["key"][0]`, r.Extra["key"][0], "value")
	expect.Equal(t, "ResourceAttributes", *r.ResourceAttributes,
		authorizationv1.ResourceAttributes{Verb: "get", Group: "snapshot.storage.k8s.io", Version: "v1",
			Resource: "volumesnapshots", Namespace: "ns", Name: "snap"})
}

func TestWhoIsRefused(t *testing.T) {
	away := errors.New("the API server is away")
	for name, tt := range map[string]struct {
		edit func(*world, *api.GetMetadataAllocatedRequest)
		code codes.Code
		text string
	}{
		"no token":         {func(_ *world, r *api.GetMetadataAllocatedRequest) { r.SecurityToken = "" }, codes.InvalidArgument, "security_token"},
		"no namespace":     {func(_ *world, r *api.GetMetadataAllocatedRequest) { r.Namespace = "" }, codes.InvalidArgument, "namespace"},
		"no name":          {func(_ *world, r *api.GetMetadataAllocatedRequest) { r.SnapshotName = "" }, codes.InvalidArgument, "name"},
		"another token":    {func(_ *world, r *api.GetMetadataAllocatedRequest) { r.SecurityToken = "x" }, codes.Unauthenticated, audience},
		"another audience": {func(w *world, _ *api.GetMetadataAllocatedRequest) { w.authentication.Audiences = []string{"x"} }, codes.Unauthenticated, audience},
		"any audience":     {func(w *world, _ *api.GetMetadataAllocatedRequest) { w.authentication.Audiences = nil }, codes.Unauthenticated, audience},
		"no permission":    {func(w *world, _ *api.GetMetadataAllocatedRequest) { w.access.Allowed = false }, codes.PermissionDenied, "backup-user has no permission to get VolumeSnapshot ns/snap"},
		"denied":           {func(w *world, _ *api.GetMetadataAllocatedRequest) { w.access.Denied = true }, codes.PermissionDenied, "no permission"},
		"no review":        {func(w *world, _ *api.GetMetadataAllocatedRequest) { w.reviewErr["token"] = away }, codes.Unavailable, "away"},
		"no access review": {func(w *world, _ *api.GetMetadataAllocatedRequest) { w.reviewErr["access"] = away }, codes.Unavailable, "away"},
	} {
		w := newWorld(t)
		in := request()
		tt.edit(w, in)
		got, err := w.allocated(in)
		if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) || len(got) != 0 {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error has the token: %v", name, err)
		}
		if len(w.dialed) != 0 || w.agent.allocated != nil {
			t.Errorf("%s: the agent was called", name)
		}
	}
	w := newWorld(t)
	if _, err := w.delta(&api.GetMetadataDeltaRequest{SecurityToken: token, Namespace: "ns",
		TargetSnapshotName: "snap"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no base: got %v", err)
	}
	if _, err := w.delta(&api.GetMetadataDeltaRequest{SecurityToken: "x", Namespace: "ns", BaseSnapshotId: "b",
		TargetSnapshotName: "snap"}); status.Code(err) != codes.Unauthenticated || w.agent.delta != nil {
		t.Errorf("another token: got %v", err)
	}
}

func TestWhichSnapshotsAreServed(t *testing.T) {
	away := errors.New("the API server is away")
	for name, tt := range map[string]struct {
		edit func(*world)
		code codes.Code
		text string
	}{
		"no snapshot":     {func(w *world) { w.snapshot = nil }, codes.NotFound, "VolumeSnapshot ns/snap does not exist"},
		"unread snapshot": {func(w *world) { w.readErr["snap"] = away }, codes.Unavailable, "away"},
		"no status":       {func(w *world) { w.snapshot.Status = nil }, codes.Unavailable, "ns/snap is not ready"},
		"not ready":       {func(w *world) { w.snapshot.Status.ReadyToUse = ptr.To(false) }, codes.Unavailable, "ns/snap is not ready"},
		"failed": {func(w *world) {
			w.snapshot.Status = &snapshotv1.VolumeSnapshotStatus{Error: &snapshotv1.VolumeSnapshotError{Message: ptr.To("thick")}}
		}, codes.Unavailable, "ns/snap is not ready to use: thick"},
		"not bound":         {func(w *world) { w.snapshot.Status.BoundVolumeSnapshotContentName = nil }, codes.Unavailable, "ns/snap is not ready"},
		"no content":        {func(w *world) { w.content = nil }, codes.NotFound, "VolumeSnapshotContent content does not exist"},
		"unread content":    {func(w *world) { w.readErr["content"] = away }, codes.Unavailable, "away"},
		"another snapshot":  {func(w *world) { w.content.Spec.VolumeSnapshotRef.Name = "x" }, codes.Unavailable, "bound to VolumeSnapshot ns/x"},
		"another namespace": {func(w *world) { w.content.Spec.VolumeSnapshotRef.Namespace = "x" }, codes.Unavailable, "bound to VolumeSnapshot x/snap"},
		"recreated":         {func(w *world) { w.content.Spec.VolumeSnapshotRef.UID = "x" }, codes.Unavailable, "bound to"},
		"another driver":    {func(w *world) { w.content.Spec.Driver = "x" }, codes.InvalidArgument, "of the driver x"},
		"content not ready": {func(w *world) { w.content.Status.ReadyToUse = nil }, codes.Unavailable, "content is not ready"},
		"no handle":         {func(w *world) { w.content.Status.SnapshotHandle = nil }, codes.Unavailable, "content is not ready"},
		"unknown volume":    {func(w *world) { w.names = nil }, codes.Unavailable, "volume ID " + handle},
		"no volume":         {func(w *world) { w.lv = nil }, codes.NotFound, "LogicalVolume snapshot-1"},
		"unread volume":     {func(w *world) { w.readErr["snapshot-1"] = away }, codes.Unavailable, "away"},
		"another volume":    {func(w *world) { w.lv.Status.VolumeID = "x" }, codes.Unavailable, `volume ID "x"`},
		"no node":           {func(w *world) { w.lv.Spec.NodeName = "" }, codes.Unavailable, `node ""`},
		"no agent":          {func(w *world) { w.dialErr = agentpod.ErrNone }, codes.Unavailable, "node agent of node-1: no node agent is running"},
	} {
		w := newWorld(t)
		tt.edit(w)
		got, err := w.allocated(request())
		if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) || len(got) != 0 ||
			w.agent.allocated != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// TestAFailureOfTheAgentIsPassedOn: after the messages that it sent, with its code.
func TestAFailureOfTheAgentIsPassedOn(t *testing.T) {
	for _, code := range []codes.Code{codes.FailedPrecondition, codes.OutOfRange, codes.NotFound, codes.Unavailable,
		codes.Internal, codes.ResourceExhausted} {
		w := newWorld(t)
		w.agent.messages, w.agent.err = 1, status.Error(code, "the reason")
		got, err := w.allocated(request())
		if status.Code(err) != code || len(got) != 1 || !strings.Contains(err.Error(), "the reason") ||
			!strings.Contains(err.Error(), "ns/snap: node node-1") {
			t.Errorf("%s: got %v, %v", code, got, err)
		}
	}
}

// TestNothingIsReadAhead: the next message is read when the client has taken the one before.
func TestNothingIsReadAhead(t *testing.T) {
	received, sent := 0, 0
	receive := func() (int, error) {
		if received != sent {
			t.Errorf("%d messages were read, and %d were sent", received, sent)
		}
		if received == 5 {
			return 0, io.EOF
		}
		received++
		return received, nil
	}
	gone := errors.New("the client is gone")
	var err error
	send := func(m int) error {
		if m != sent+1 {
			t.Errorf("message %d was sent after %d", m, sent)
		}
		sent = m
		return err
	}
	if got := relay(receive, send); got != nil || sent != 5 {
		t.Errorf("got %v, %d messages", got, sent)
	}
	received, sent, err = 0, 0, gone
	if got := relay(receive, send); !errors.Is(got, gone) || received != 1 {
		t.Errorf("got %v, %d messages", got, received)
	}
}

// TestAClientThatGoesAwayEndsTheCallOfTheAgent: although it did not read all messages.
func TestAClientThatGoesAwayEndsTheCallOfTheAgent(t *testing.T) {
	w := newWorld(t)
	w.agent.messages, w.agent.ended = math.MaxInt, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := w.connect().GetMetadataDelta(ctx, &api.GetMetadataDeltaRequest{SecurityToken: token, Namespace: "ns",
		TargetSnapshotName: "snap", BaseSnapshotId: "base"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-w.agent.ended
}

// TestTooMuchIsRefused: a call that is authorized, if its tenant or all have too many; and one whose authorization has
// to wait too long, before the API server is asked.
func TestTooMuchIsRefused(t *testing.T) {
	w := newWorld(t)
	w.edit = func(s *Server) {
		for range tenantCalls {
			if _, err := s.calls.Try("user backup-user"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.allocated(request()); status.Code(err) != codes.ResourceExhausted || w.reviewed == nil ||
		len(w.dialed) != 0 {
		t.Errorf("got %v", err)
	}
	w.authentication.User.Username = "system:serviceaccount:other:backup"
	if _, err := w.allocated(request()); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	w = newWorld(t)
	none := limit.Rate{Interval: time.Hour}
	w.edit = func(s *Server) {
		s.reviews = limit.NewReviews(limit.ReviewOptions{Strangers: none, Stranger: none, Known: none})
	}
	if _, err := w.allocated(request()); status.Code(err) != codes.ResourceExhausted || w.reviewed != nil ||
		len(w.dialed) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestATenantIsANamespace(t *testing.T) {
	for user, want := range map[string]string{
		"system:serviceaccount:shop:a": "the ServiceAccounts of namespace shop",
		"system:serviceaccount:shop:b": "the ServiceAccounts of namespace shop",
		"system:serviceaccount:b:shop": "the ServiceAccounts of namespace b",
		"shop":                         "user shop",
	} {
		if got := tenantOf(user); got != want {
			t.Errorf("%s: got %q, want %q", user, got, want)
		}
	}
}

// TestAFloodOfTokensIsNotReviewed: 10,000 calls of one address cause five reviews, and a call of another succeeds.
func TestAFloodOfTokensIsNotReviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reviewed := 0
		s := New(Options{Client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(
			_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			switch review := o.(type) {
			case *authenticationv1.TokenReview:
				reviewed++
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == token,
					Audiences: []string{audience}}
			case *authorizationv1.SubjectAccessReview:
				review.Status.Allowed = true
			}
			return nil
		}}).Build()})
		// Nobody waits, so that no time passes.
		options := reviews
		options.Wait = 0
		s.reviews = limit.NewReviews(options)
		got := map[codes.Code]int{}
		for i := range 10000 {
			_, err := s.authorize(t.Context(), caller{peer: "192.0.2.9", token: fmt.Sprint(i)})
			got[status.Code(err)]++
		}
		if got[codes.Unauthenticated] != 5 || got[codes.ResourceExhausted] != 9995 || reviewed != 5 {
			t.Errorf("got %v, %d reviews, want 5", got, reviewed)
		}
		for range 2 {
			if _, err := s.authorize(t.Context(), caller{peer: "192.0.2.1", token: token}); err != nil {
				t.Errorf("another peer: %v", err)
			}
		}
	})
}

// TestTheRelayServesTheSocket: the same answers without an authorization.
func TestTheRelayServesTheSocket(t *testing.T) {
	w := newWorld(t)
	w.edit = func(s *Server) {
		connection, err := serve(t, func(g *grpc.Server) { csi.RegisterSnapshotMetadataServer(g, s.Relay) })()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		w.socket = csi.NewSnapshotMetadataClient(connection)
	}
	w.connect()
	count := func(receive func() error) (n int, err error) {
		for ; ; n++ {
			if err := receive(); errors.Is(err, io.EOF) {
				return n, nil
			} else if err != nil {
				return n, err
			}
		}
	}
	allocated, err := w.socket.GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{SnapshotId: handle})
	if err != nil {
		t.Fatal(err)
	}
	n, err := count(func() error { _, err := allocated.Recv(); return err })
	if n != 3 || err != nil {
		t.Errorf("allocated: got %d messages, %v", n, err)
	}
	for target, want := range map[string]codes.Code{handle: codes.OK, "x": codes.Unavailable} {
		delta, err := w.socket.GetMetadataDelta(t.Context(), &csi.GetMetadataDeltaRequest{TargetSnapshotId: target,
			BaseSnapshotId: "base"})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := count(func() error { _, err := delta.Recv(); return err }); status.Code(err) != want ||
			(n == 3) != (err == nil) {
			t.Errorf("%s: got %d messages, %v", target, n, err)
		}
	}
	if w.reviewed != nil {
		t.Error("the API server was asked")
	}
}
