package csinode

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// luksHeader is what an encrypted volume has instead of a file system, and its number of key slots.
type luksHeader struct {
	content mounter.Content
	slots   int
}

// fakeContainers is a node with one LUKS container. TestLabEncrypted* run cryptsetup.
type fakeContainers struct {
	host   *fakeHost
	header luksHeader
	// keys are those of the key slots.
	keys []string
	open bool
	// below is the device below the mapped device; "" for that of the volume.
	below   string
	formats int
	errors  map[string]error // by name of the method
	points  *kill.Points     // nil passes everything
}

var mappedNumber = mounter.Number{Major: 253, Minor: 1}

// encrypted makes the volume one of an encrypted class that nobody has used.
func (b *bench) encrypted() {
	b.volumes.lv.Tags = []string{wellknown.NewTag, wellknown.EncryptionTagPrefix + wellknown.EncryptionLUKS2}
}

// holds reports whether the volume has a header, or is marked to get one, and not a file system of its own.
func (f *fakeContainers) holds() bool {
	return f.header != (luksHeader{}) || f.host.found == (mounter.Content{})
}

func (f *fakeContainers) Mapping(context.Context, string) (luks.Mapping, error) {
	if !f.open || f.errors["Mapping"] != nil {
		return luks.Mapping{}, f.errors["Mapping"]
	}
	below := f.below
	if below == "" {
		below = f.host.device.String()
	}
	return luks.Mapping{Path: "/dev/mapper/" + volume.MappingName(id), Number: mappedNumber.String(), Below: below}, nil
}

func (f *fakeContainers) Slots(context.Context, string) (int, error) {
	return f.header.slots, f.errors["Slots"]
}

func (f *fakeContainers) set(keys ...string) {
	f.keys = keys
	f.header = luksHeader{mounter.Content{Kind: "crypto_LUKS"}, len(keys)}
}

func (f *fakeContainers) Format(_ context.Context, _ string, key []byte) error {
	return f.points.Pass(func() error {
		f.formats++
		f.host.did = append(f.host.did, "luksFormat")
		f.set(string(key))
		return f.errors["Format"]
	}, func() { f.set() })
}

func (f *fakeContainers) Open(_ context.Context, _, _ string, key []byte, discards bool) error {
	if err := f.errors["Open"]; err != nil {
		return err
	}
	if !f.fits(key) {
		return luks.ErrWrongKey
	}
	return f.points.Pass(func() error {
		what := "open"
		if discards {
			what += " with discards"
		}
		f.host.did = append(f.host.did, what)
		f.open = true
		return nil
	}, nil)
}

func (f *fakeContainers) Fits(_ context.Context, _ string, key []byte) (bool, error) {
	return f.fits(key), f.errors["Fits"]
}

// fits ignores zero bytes at the end of a key, as PBKDF2 does.
func (f *fakeContainers) fits(key []byte) bool {
	return slices.ContainsFunc(f.keys, func(k string) bool { return isSameKey(k, string(key)) })
}

func isSameKey(a, b string) bool { return strings.TrimRight(a, "\x00") == strings.TrimRight(b, "\x00") }

func (f *fakeContainers) AddKey(_ context.Context, _ string, _, added []byte) error {
	return f.points.Pass(func() error {
		f.host.did = append(f.host.did, "luksAddKey")
		f.set(append(f.keys, string(added))...)
		return f.errors["AddKey"]
	}, nil)
}

func (f *fakeContainers) RemoveKey(_ context.Context, _ string, key []byte) error {
	if !f.fits(key) {
		return luks.ErrWrongKey
	}
	return f.points.Pass(func() error {
		if err := f.errors["RemoveKey"]; err != nil {
			return err
		}
		f.host.did = append(f.host.did, "luksRemoveKey")
		f.set(slices.DeleteFunc(slices.Clone(f.keys), func(k string) bool { return isSameKey(k, string(key)) })...)
		return nil
	}, nil)
}

func (f *fakeContainers) Resize(context.Context, string) error {
	return f.points.Pass(func() error { return f.host.do("resize", "") }, nil)
}

func (f *fakeContainers) Close(context.Context, string) error {
	return f.points.Pass(func() error {
		if err := f.errors["Close"]; err != nil {
			return err
		}
		f.host.did = append(f.host.did, "close")
		f.open = false
		return nil
	}, nil)
}

var (
	present  = strings.Repeat("present", 5)
	previous = strings.Repeat("previous", 5)
)

// secretOf returns a Secret with a key, and a previous key unless it is "".
func secretOf(key, previous string) map[string]string {
	secret := map[string]string{wellknown.EncryptionKey: key}
	if previous != "" {
		secret[wellknown.EncryptionPreviousKey] = previous
	}
	return secret
}

var luksContext = map[string]string{wellknown.EncryptionParameter: wellknown.EncryptionLUKS2}

// stageEncrypted stages the volume with a Secret, as a block volume if fs is "".
func (b *bench) stageEncrypted(fs string, secret, volumeContext map[string]string) error {
	b.host.did = nil
	request := &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging, Secrets: secret,
		VolumeContext: volumeContext, VolumeCapability: capability(fs, writer)}
	if fs == "" {
		request.VolumeCapability = blockCapability()
	}
	_, err := b.server.NodeStageVolume(b.Context(), request)
	return err
}

func blockCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: writer},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

func (b *bench) publishEncrypted(block bool) error {
	request := &csi.NodePublishVolumeRequest{VolumeId: id, TargetPath: b.target, StagingTargetPath: b.staging,
		VolumeContext: luksContext, VolumeCapability: capability("xfs", writer)}
	if block {
		request.VolumeCapability = blockCapability()
	}
	_, err := b.server.NodePublishVolume(b.Context(), request)
	return err
}

func (b *bench) expand() error {
	b.host.did = nil
	_, err := b.server.NodeExpandVolume(b.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: b.target})
	return err
}

func (b *bench) unpublishAndUnstage() error {
	_, err := b.server.NodeUnpublishVolume(b.Context(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: b.target})
	_, other := b.server.NodeUnstageVolume(b.Context(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging})
	return errors.Join(err, other)
}

// TestLifeOfAnEncryptedVolume stages, publishes, expands and unstages a volume, each twice.
func TestLifeOfAnEncryptedVolume(t *testing.T) {
	b := newBench(t)
	b.encrypted()
	secret := secretOf(present, "")
	b.wantCode(b.stageEncrypted("xfs", secret, luksContext), codes.OK)
	b.wantDid("luksFormat", "open", "format mkfs.xfs", "mount xfs noatime,nouuid", "setMode")
	if b.host.mounts[b.staging] != mappedNumber {
		t.Errorf("mounted %s, want the mapped device", b.host.mounts[b.staging])
	}
	b.wantCode(b.stageEncrypted("xfs", secret, luksContext), codes.OK)
	b.wantDid("grow false")
	for range 2 {
		b.wantCode(b.publishEncrypted(false), codes.OK)
	}
	for range 2 {
		b.wantCode(b.expand(), codes.OK)
		b.wantDid("resize", "grow true")
	}
	for range 2 {
		b.wantCode(b.unpublishAndUnstage(), codes.OK)
	}
	if b.luks.open || len(b.host.mounts) != 0 {
		t.Errorf("the volume is open: %t, mounts: %v", b.luks.open, b.host.mounts)
	}
	b.wantCode(b.stageEncrypted("xfs", secret, map[string]string{wellknown.EncryptionParameter: "luks2",
		wellknown.EncryptionDiscardsParameter: "true"}), codes.OK)
	b.wantDid("open with discards", "check xfs", "mount xfs noatime,nouuid", "grow false")
	if want := []string{"lvms.encryption=luks2", "lvms.formatted=xfs"}; !slices.Equal(b.volumes.lv.Tags, want) {
		t.Errorf("got the tags %q", b.volumes.lv.Tags)
	}
}

func TestAnEncryptedBlockVolume(t *testing.T) {
	b := newBench(t)
	b.encrypted()
	for range 2 {
		b.wantCode(b.stageEncrypted("", secretOf(present, ""), luksContext), codes.OK)
		b.wantCode(b.publishEncrypted(true), codes.OK)
	}
	if b.host.mounts[b.target] != mappedNumber || b.luks.formats != 1 {
		t.Errorf("published %v, %d headers were written", b.host.mounts, b.luks.formats)
	}
	if want := []string{"lvms.encryption=luks2"}; !slices.Equal(b.volumes.lv.Tags, want) {
		t.Errorf("got the tags %q", b.volumes.lv.Tags)
	}
	b.wantCode(b.expand(), codes.OK)
	if !slices.Contains(b.host.did, "resize") {
		t.Errorf("did %q", b.host.did)
	}
	b.wantCode(b.unpublishAndUnstage(), codes.OK)
	if b.luks.open {
		t.Error("the volume is open")
	}
}

// TestOnlyAnOpenVolumeIsUsed checks that a Pod never gets the logical volume of an encrypted volume itself.
func TestOnlyAnOpenVolumeIsUsed(t *testing.T) {
	for _, marked := range []bool{true, false} {
		b := newBench(t)
		if marked {
			b.encrypted()
		}
		b.wantCode(b.publishEncrypted(true), codes.FailedPrecondition, id, "not open", "node1")
		if len(b.host.mounts) != 0 {
			t.Errorf("published %v", b.host.mounts)
		}
	}
	b := newBench(t)
	b.encrypted()
	b.wantCode(b.expand(), codes.FailedPrecondition, "not open")
	b.wantDid()
}

// TestAVolumeThatIsNotStagedAfterARestart: after a power cut, the kubelet publishes a volume whose earlier Pod has not
// ended without staging it, so without its key. The message names this cause, and loses no data.
func TestAVolumeThatIsNotStagedAfterARestart(t *testing.T) {
	for _, block := range []bool{false, true} {
		for _, used := range []bool{false, true} {
			b := newBench(t)
			b.encrypted()
			if used {
				b.volumes.lv.Tags[0] = wellknown.FormattedTagPrefix + "xfs"
				b.luks.set(present)
				b.host.found = contentOf("xfs")
			}
			for range 2 {
				err := b.publishEncrypted(block)
				b.wantCode(err, codes.FailedPrecondition, id, "node1", "is not open", "restart of the node",
					"delete the Pods", "their data stays")
				for _, advice := range []string{"the claim", "StorageClass", "nodeStageSecretRef", "lost"} {
					if strings.Contains(err.Error(), advice) {
						t.Errorf("%q is not the cause, or its advice deletes data", err)
					}
				}
			}
			if len(b.host.mounts) > 0 || b.luks.formats+b.host.formats > 0 {
				t.Errorf("published %v, did %q", b.host.mounts, b.host.did)
			}
		}
	}
}

// TestNoAdviceDeletesData: a volume without a Secret can contain data. Its claim must not be deleted.
func TestNoAdviceDeletesData(t *testing.T) {
	b := newBench(t)
	b.encrypted()
	b.volumes.lv.Tags[0] = wellknown.FormattedTagPrefix + "xfs"
	b.luks.set(present)
	for range 2 {
		err := b.stageEncrypted("xfs", nil, luksContext)
		b.wantCode(err, codes.FailedPrecondition, id, "node1", "nodeStageSecretRef", "Do not delete the claim")
		if strings.Contains(err.Error(), "create the claim again") {
			t.Errorf("%q loses the data", err)
		}
	}
}

// TestWithoutItsKeyNothingIsFormatted stages used and unused volumes without a key, with the wrong one, and after reads
// that failed.
func TestWithoutItsKeyNothingIsFormatted(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		secret map[string]string
		errors map[string]error
		code   codes.Code
		says   []string
	}{
		"no Secret":         {code: codes.FailedPrecondition, says: []string{"nodeStageSecretRef", "lost"}},
		"another key name":  {secret: map[string]string{"a": present}, code: codes.FailedPrecondition, says: []string{"no key"}},
		"a short key":       {secret: secretOf("short", ""), code: codes.FailedPrecondition, says: []string{"5 bytes", "32"}},
		"a long key":        {secret: secretOf(strings.Repeat("k", 4097), ""), code: codes.FailedPrecondition, says: []string{"4097 bytes"}},
		"a short old key":   {secret: secretOf(present, "old"), code: codes.FailedPrecondition, says: []string{"previousKey", "3 bytes"}},
		"a wrong key":       {secret: secretOf(previous, ""), code: codes.FailedPrecondition, says: []string{"its key is not key", "lost"}},
		"two wrong keys":    {secret: secretOf(previous, strings.Repeat("x", 32)), code: codes.FailedPrecondition, says: []string{"neither key nor previousKey"}},
		"the volume":        {secret: secretOf(present, ""), errors: map[string]error{"probe": broken}, code: codes.Internal, says: []string{"cannot be read"}},
		"the header":        {secret: secretOf(present, ""), errors: map[string]error{"Slots": broken}, code: codes.Internal, says: []string{"cannot be read"}},
		"the previous key":  {secret: secretOf(previous, strings.Repeat("x", 32)), errors: map[string]error{"Fits": broken}, code: codes.Internal, says: []string{"broken"}},
		"the mapped device": {secret: secretOf(present, ""), errors: map[string]error{"Mapping": broken}, code: codes.Internal, says: []string{"broken"}},
		"cryptsetup":        {secret: secretOf(present, ""), errors: map[string]error{"Open": broken}, code: codes.Internal, says: []string{"broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tag := range []string{wellknown.NewTag, wellknown.FormattedTagPrefix + "xfs", "other"} {
				b := newBench(t)
				b.encrypted()
				b.volumes.lv.Tags[0] = tag
				b.luks.set(present)
				maps.Copy(b.host.errors, test.errors)
				maps.Copy(b.luks.errors, test.errors)
				for range 2 {
					b.wantCode(b.stageEncrypted("xfs", test.secret, luksContext), test.code, append(test.says, id, "node1")...)
				}
				if b.luks.formats+b.host.formats != 0 || !slices.Equal(b.luks.keys, []string{present}) {
					t.Errorf("did %q, keys %q", b.host.did, b.luks.keys)
				}
			}
		})
	}
}

// TestAVolumeIsNotFormattedWithoutAKey checks an unused volume: a key that cannot be stored again must not be used.
func TestAVolumeIsNotFormattedWithoutAKey(t *testing.T) {
	b := newBench(t)
	b.encrypted()
	b.wantCode(b.stageEncrypted("xfs", nil, luksContext), codes.FailedPrecondition)
	b.wantDid()
}

// TestAVolumeOfAnOlderAgentIsMarked stages a volume whose agent did not know of encryption when it created the volume.
func TestAVolumeOfAnOlderAgentIsMarked(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.NewTag}
	b.volumes.tagErr = errors.New("no tag")
	if err := b.stageEncrypted("xfs", secretOf(present, ""), luksContext); err == nil || b.luks.formats != 0 {
		t.Errorf("without the tag: %v, %d headers were written", err, b.luks.formats)
	}
	b.volumes.tagErr = nil
	b.wantCode(b.stageEncrypted("xfs", secretOf(present, ""), luksContext), codes.OK)
	if !slices.Contains(b.volumes.lv.Tags, "lvms.encryption=luks2") {
		t.Errorf("got the tags %q", b.volumes.lv.Tags)
	}
}

// TestAMappedDeviceOfAnotherVolumeIsNotUsed also checks that a volume whose number is that of an earlier one is told
// from it.
func TestAMappedDeviceOfAnotherVolumeIsNotUsed(t *testing.T) {
	b := newBench(t)
	b.encrypted()
	b.luks.set(present)
	b.luks.open = true
	b.luks.below = "254:99"
	b.wantCode(b.stageEncrypted("xfs", secretOf(present, ""), luksContext), codes.Internal, "254:99", "dmsetup remove")
	b.wantCode(b.publishEncrypted(true), codes.Internal)
}

func TestUnstageReportsAVolumeThatStaysOpen(t *testing.T) {
	for _, method := range []string{"Mapping", "Close"} {
		b := newBench(t)
		b.encrypted()
		b.wantCode(b.stageEncrypted("xfs", secretOf(present, ""), luksContext), codes.OK)
		b.luks.errors[method] = errors.New("busy")
		b.wantCode(b.unpublishAndUnstage(), codes.Internal, id, "busy")
		if slices.Contains(b.host.removed, b.staging) {
			t.Errorf("%s: without the staging path, the kubelet does not call again", method)
		}
		delete(b.luks.errors, method)
		b.wantCode(b.unpublishAndUnstage(), codes.OK)
		if b.luks.open || !slices.Contains(b.host.removed, b.staging) {
			t.Errorf("%s: the volume is open, or its staging path remains", method)
		}
	}
}

func TestRotation(t *testing.T) {
	for name, test := range map[string]struct {
		keys   []string
		secret map[string]string
		errors map[string]error
		did    []string
		want   []string
		code   codes.Code
	}{
		"not begun": {keys: []string{previous}, secret: secretOf(present, previous),
			did: []string{"luksAddKey", "luksRemoveKey", "open"}, want: []string{present}},
		"both keys": {keys: []string{previous, present}, secret: secretOf(present, previous),
			did: []string{"luksRemoveKey", "open"}, want: []string{present}},
		"completed":    {keys: []string{present}, secret: secretOf(present, previous), did: []string{"open"}, want: []string{present}},
		"the same key": {keys: []string{present}, secret: secretOf(present, present), did: []string{"open"}, want: []string{present}},
		"the same key with a zero byte": {keys: []string{present}, secret: secretOf(present, present+"\x00"),
			did: []string{"open"}, want: []string{present}},
		"the key slots cannot be counted": {keys: []string{previous, present}, secret: secretOf(present, previous),
			errors: map[string]error{"Slots": errors.New("broken")}, code: codes.Internal,
			want: []string{previous, present}},
		"the removal fails": {keys: []string{previous}, secret: secretOf(present, previous),
			errors: map[string]error{"RemoveKey": errors.New("broken")},
			did:    []string{"luksAddKey", "open"}, want: []string{previous, present}},
		"the present key cannot be added": {keys: []string{previous}, secret: secretOf(present, previous),
			errors: map[string]error{"AddKey": errors.New("broken")}, code: codes.Internal,
			did: []string{"luksAddKey"}, want: []string{previous, present}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.encrypted()
			b.volumes.lv.Tags = b.volumes.lv.Tags[1:]
			b.luks.set(test.keys...)
			maps.Copy(b.luks.errors, test.errors)
			b.wantCode(b.stageEncrypted("", test.secret, luksContext), test.code)
			b.wantDid(test.did...)
			if !slices.Equal(b.luks.keys, test.want) {
				t.Errorf("the key slots have %q", b.luks.keys)
			}
		})
	}
}

func TestEncryptedVolumeKilledAtEveryStep(t *testing.T) {
	stageOf := func(fs string, secret map[string]string) func(b *bench) error {
		return func(b *bench) error { return b.stageEncrypted(fs, secret, luksContext) }
	}
	publishOf := func(block bool) func(b *bench) error {
		return func(b *bench) error { return b.publishEncrypted(block) }
	}
	end := func(b *bench) error { return b.unpublishAndUnstage() }
	expand := func(b *bench) error { return b.expand() }
	first := secretOf(previous, "")
	second := secretOf(present, previous)
	for name, operation := range map[string]struct {
		prepare, requests []func(*bench) error
		open              bool
		keys              []string
		mounts            int
	}{
		"first use": {requests: []func(*bench) error{stageOf("xfs", first), publishOf(false)},
			open: true, keys: []string{previous}, mounts: 2},
		"first use as a block volume": {requests: []func(*bench) error{stageOf("", first), publishOf(true)},
			open: true, keys: []string{previous}, mounts: 1},
		"growth": {prepare: []func(*bench) error{stageOf("xfs", first), publishOf(false)},
			requests: []func(*bench) error{expand}, open: true, keys: []string{previous}, mounts: 2},
		"end of use": {prepare: []func(*bench) error{stageOf("xfs", first), publishOf(false)},
			requests: []func(*bench) error{end}, keys: []string{previous}},
		"rotation": {prepare: []func(*bench) error{stageOf("xfs", first), publishOf(false), end},
			requests: []func(*bench) error{stageOf("xfs", second)}, open: true, keys: []string{present}, mounts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			create := func(t *testing.T) *bench {
				b := newBench(t)
				b.encrypted()
				return b
			}
			killed(t, create, operation.prepare, operation.requests, func(t *testing.T, b *bench) {
				if b.luks.open != operation.open || !slices.Equal(b.luks.keys, operation.keys) ||
					len(b.host.mounts) != operation.mounts {
					t.Errorf("open: %t, keys %q, mounts %v", b.luks.open, b.luks.keys, b.host.mounts)
				}
				unused := volume.Volume{LV: b.volumes.lv}.UnusedTags()
				if len(b.host.records) > 0 || operation.mounts > 0 && len(unused) > 0 {
					t.Errorf("the records %v and the tags %q are left", b.host.records, unused)
				}
			})
		})
	}
}
