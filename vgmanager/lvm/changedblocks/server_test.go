package changedblocks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// served returns a client of a server on a socket. Its snapshots are the logical volumes of the group with their names,
// those with "other/" in another group. All are of the same volume, except "foreign" and "unknown".
func served(t *testing.T, r *Reader) csi.SnapshotMetadataClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "csi.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterSnapshotMetadataServer(server, NewServer(r, func(_ context.Context, id string) (Volume, error) {
		if id == "gone" {
			return Volume{}, fmt.Errorf("no logical volume has the ID %s: %w", id, lvm.ErrNotFound)
		}
		v := Volume{VG: group, Name: id, Source: "origin"}
		if vg, name, has := strings.Cut(id, "/"); has {
			v.VG = vg
			v.Name = name
		}
		switch id {
		case "foreign":
			v.Name = "first"
			v.Source = "another"
		case "unknown":
			v.Name = "first"
			v.Source = ""
		}
		return v, nil
	}))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return csi.NewSnapshotMetadataClient(connection)
}

// message is what both responses have in common.
type message interface {
	GetBlockMetadataType() csi.BlockMetadataType
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// received is the content of a stream.
type received struct {
	messages, largest int
	size              int64
	ranges            []Range
}

// drain reads a stream to its end.
func drain[M message](t *testing.T, stream interface{ Recv() (M, error) }, err error) (received, error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var all received
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if m.GetBlockMetadataType() != csi.BlockMetadataType_VARIABLE_LENGTH {
			t.Errorf("got the type %s", m.GetBlockMetadataType())
		}
		all.messages++
		all.largest = max(all.largest, len(m.GetBlockMetadata()))
		all.size = m.GetVolumeCapacityBytes()
		for _, b := range m.GetBlockMetadata() {
			all.ranges = append(all.ranges, Range{uint64(b.GetByteOffset()), uint64(b.GetSizeBytes())})
		}
	}
}

func allocated(t *testing.T, c csi.SnapshotMetadataClient, in *csi.GetMetadataAllocatedRequest) (received, error) {
	t.Helper()
	stream, err := c.GetMetadataAllocated(t.Context(), in)
	return drain[*csi.GetMetadataAllocatedResponse](t, stream, err)
}

func delta(t *testing.T, c csi.SnapshotMetadataClient, in *csi.GetMetadataDeltaRequest) (received, error) {
	t.Helper()
	stream, err := c.GetMetadataDelta(t.Context(), in)
	return drain[*csi.GetMetadataDeltaResponse](t, stream, err)
}

func TestServerStreamsAllPages(t *testing.T) {
	c := served(t, started(newFake(), nil))
	for range 2 {
		got, err := allocated(t, c, &csi.GetMetadataAllocatedRequest{SnapshotId: "first"})
		want := received{messages: 1, largest: 1, size: volume, ranges: firstRanges}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(received{})); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
		got, err = delta(t, c, &csi.GetMetadataDeltaRequest{BaseSnapshotId: "first", TargetSnapshotId: "second",
			StartingOffset: 5 * chunk, MaxResults: 2})
		want = received{messages: 2, largest: 2, size: volume, ranges: deltaRanges[1:]}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(received{})); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
		// Without a range, the client still learns the size.
		got, err = delta(t, c, &csi.GetMetadataDeltaRequest{BaseSnapshotId: "first", TargetSnapshotId: "first"})
		want = received{messages: 1, size: volume}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(received{})); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
	}
}

func TestServerRefusesRequests(t *testing.T) {
	f := newFake()
	c := served(t, started(f, nil))
	for name, test := range map[string]struct {
		in   *csi.GetMetadataDeltaRequest
		code codes.Code
		text string
	}{
		"no target":                     {request("first", "", 0, 0), codes.InvalidArgument, "target_snapshot_id"},
		"no base":                       {request("", "first", 0, 0), codes.InvalidArgument, "base_snapshot_id"},
		"a wrong base":                  {request("gone", "first", 0, 0), codes.NotFound, "snapshot gone"},
		"a target that is deleted":      {request("first", "gone", 0, 0), codes.NotFound, "snapshot gone"},
		"a target without a volume":     {request("first", "absent", 0, 0), codes.NotFound, "changed/absent"},
		"a base of another volume":      {request("foreign", "second", 0, 0), codes.InvalidArgument, "same volume"},
		"volumes that are not known":    {request("unknown", "unknown", 0, 0), codes.InvalidArgument, "same volume"},
		"a negative offset":             {request("first", "second", -1, 0), codes.OutOfRange, "starting_offset is -1"},
		"an offset behind the end":      {request("first", "second", volume+1, 0), codes.OutOfRange, "behind the end"},
		"a negative number of results":  {request("first", "second", 0, -1), codes.InvalidArgument, "max_results"},
		"a thick snapshot":              {request("first", "thick", 0, 0), codes.FailedPrecondition, "it is thick"},
		"an encrypted snapshot":         {request("encrypted", "first", 0, 0), codes.FailedPrecondition, "encrypted"},
		"a base in another group":       {request("other/first", "first", 0, 0), codes.FailedPrecondition, "other and"},
		"a target that is not readable": {request("other/a", "other/b", 0, 0), codes.NotFound, "volume group other"},
	} {
		got, err := delta(t, c, test.in)
		if status.Code(err) != test.code || !strings.Contains(err.Error(), test.text) || got.messages != 0 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "gone": codes.NotFound,
		"thick": codes.FailedPrecondition} {
		if got, err := allocated(t, c, &csi.GetMetadataAllocatedRequest{SnapshotId: id}); status.Code(err) != code {
			t.Errorf("%q: got %+v, %v", id, got, err)
		}
	}
	if got, err := allocated(t, c, &csi.GetMetadataAllocatedRequest{SnapshotId: "first",
		StartingOffset: volume}); err != nil || got.ranges != nil {
		t.Errorf("at the end: got %+v, %v", got, err)
	}
}

func request(base, target string, offset int64, most int32) *csi.GetMetadataDeltaRequest {
	return &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target, StartingOffset: offset,
		MaxResults: most}
}

func TestServerReportsFailures(t *testing.T) {
	for err, code := range map[error]codes.Code{
		errors.New("any"):        codes.Internal,
		thinmeta.ErrDamaged:      codes.Internal,
		lvm.ErrBusy:              codes.Unavailable,
		lvm.ErrRunning:           codes.Unavailable,
		context.DeadlineExceeded: codes.DeadlineExceeded,
		context.Canceled:         codes.Canceled,
	} {
		f := newFake()
		c := served(t, started(f, nil))
		f.faults["walk"], f.after = err, 1 // the second message fails
		got, failed := delta(t, c, request("first", "second", 0, 1))
		if status.Code(failed) != code || got.messages != 1 {
			t.Errorf("%v: got %+v, %v", err, got, failed)
		}
		if f.isReserved(t) {
			t.Errorf("%v: the metadata snapshot is still reserved", err)
		}
	}
	f := newFake()
	f.suspended = true
	if got, err := delta(t, served(t, started(f, nil)), request("first", "second", 0, 0)); status.Code(err) !=
		codes.Unavailable {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestAClientThatGoesAwayLeavesNothing: neither a metadata snapshot nor a call.
func TestAClientThatGoesAwayLeavesNothing(t *testing.T) {
	f := newFake()
	blocked := make(chan struct{})
	f.onRead = func() {
		if f.calls["open"] == 2 { // after the first message
			<-blocked
		}
	}
	c := served(t, started(f, nil))
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.GetMetadataDelta(ctx, request("first", "second", 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	close(blocked)
	got, err := delta(t, c, request("first", "second", 0, 0))
	if err != nil || len(got.ranges) != len(deltaRanges) || f.isReserved(t) {
		t.Errorf("got %+v, %v", got, err)
	}
}
