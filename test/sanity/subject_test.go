//go:build lab

package sanity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// subject is a driver that gets the calls of the scenario.
type subject struct {
	identity   csi.IdentityClient
	controller csi.ControllerClient
	node       csi.NodeClient
	// stages: the node service has calls that stage a volume, which go before its publication.
	stages  bool
	dir     string
	cluster *env.Env
	storage *lvmexec.LVM
	// ids are the volume handles by name of the request. names are the names of objects by UID, also of deleted ones.
	ids, names map[string]string
	// targets are the paths at which volumes were published.
	targets []string
}

func newSubject(t *testing.T, cluster *env.Env, storage *lvmexec.LVM, dir string, s sockets) *subject {
	t.Helper()
	controller, node := dial(t, s.controller), dial(t, s.node)
	d := &subject{
		identity: csi.NewIdentityClient(node), controller: csi.NewControllerClient(controller),
		node: csi.NewNodeClient(node), dir: dir, cluster: cluster, storage: storage,
		ids: map[string]string{}, names: map[string]string{},
	}
	capabilities, err := d.node.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	must(t, err)
	for _, c := range capabilities.GetCapabilities() {
		if c.GetRpc().GetType() == csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME {
			d.stages = true
		}
	}
	return d
}

// callTimeout is long for an answer, and ends a call that is never answered.
const callTimeout = time.Minute

// answer is the name of the fact that has the code of an answer. It begins the names of the facts about the answer. The
// names of objects, volumes and mounts are facts with the value exists.
const (
	answer = "answer"
	exists = "exists"
)

// make makes a call, and returns the facts after it.
func (d *subject) make(t *testing.T, call call) facts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	response, err := call.do(ctx, d)
	if err != nil {
		t.Logf("%s: %v", call.name, err)
	}
	all := d.settled(t)
	all[answer] = status.Code(err).String()
	if err == nil {
		d.flattenMessage(t, answer, response, all)
	}
	return all
}

// settled returns the facts about objects, volumes and mounts as soon as they no longer change.
func (d *subject) settled(t *testing.T) facts {
	t.Helper()
	const pause = 500 * time.Millisecond
	before := d.observe(t)
	for deadline := time.Now().Add(env.Patience); time.Now().Before(deadline); {
		time.Sleep(pause)
		after := d.observe(t)
		if maps.Equal(before, after) {
			return after
		}
		before = after
	}
	t.Fatal("objects, volumes or mounts still change")
	return nil
}

// observe reads the objects, volumes and mounts.
func (d *subject) observe(t *testing.T) facts {
	t.Helper()
	all := facts{}
	d.observeObjects(t, all)
	d.observeVolumes(t, all)
	d.observeMounts(t, all)
	return all
}

func (d *subject) observeObjects(t *testing.T, all facts) {
	t.Helper()
	var volumes topolvmv1.LogicalVolumeList
	must(t, d.cluster.Client.List(t.Context(), &volumes))
	for i := range volumes.Items {
		v := &volumes.Items[i]
		d.names[string(v.UID)] = v.Spec.Name
		v.UID, v.ResourceVersion, v.ManagedFields, v.Generation = "", "", nil, 0
		all["object "+v.Spec.Name] = exists
		d.flatten(t, "object "+v.Spec.Name, v, all)
	}
}

func (d *subject) observeVolumes(t *testing.T, all facts) {
	t.Helper()
	report, err := d.storage.Report(t.Context())
	must(t, err)
	for _, group := range []string{thinClass, thickClass, raidClass} {
		for _, lv := range report.VG(group).LVs {
			if lv.Attr.IsThinPool() {
				continue
			}
			name := "volume " + d.nameOf(lv.Name)
			all[name] = exists
			all[name+".group"] = group
			all[name+".attr"] = string(lv.Attr)
			all[name+".size"] = fmt.Sprint(uint64(lv.Size))
			all[name+".origin"] = d.nameOf(lv.Origin)
			for _, tag := range lv.Tags {
				key, value, _ := strings.Cut(tag, "=")
				all[name+".tag "+key] = d.normalize(value) + " "
			}
		}
	}
}

// nameOf returns the name of a volume in requests.
func (d *subject) nameOf(lv string) string {
	if name, known := d.names[lv]; known {
		return name
	}
	return lv
}

func (d *subject) observeMounts(t *testing.T, all facts) {
	t.Helper()
	mounts, err := mount.ParseMountInfo("/proc/self/mountinfo")
	must(t, err)
	for _, target := range d.targets {
		name := "mount " + strings.TrimPrefix(target, d.dir+"/")
		i := slices.IndexFunc(mounts, func(m mount.MountInfo) bool { return m.MountPoint == target })
		if i < 0 {
			continue
		}
		m := mounts[i]
		options := append(slices.Clone(m.MountOptions), m.SuperOptions...)
		sort.Strings(options)
		all[name] = exists
		all[name+".type"] = m.FsType
		all[name+".options"] = strings.Join(slices.Compact(options), ",")
		info, err := os.Stat(target)
		must(t, err)
		all[name+".mode"] = info.Mode().String()
		if info.IsDir() {
			d.observeFileSystem(t, target, name, m.Source, all)
		}
	}
}

// observeFileSystem reads the size of a file system, its content, and what blkid says about it.
func (d *subject) observeFileSystem(t *testing.T, target, name, device string, all facts) {
	t.Helper()
	content, err := os.ReadFile(target + "/file")
	if err == nil {
		all[name+".file"] = string(content)
	} else if !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "blkid", "-p", "-o", "export", device).Output()
	if err != nil {
		t.Fatalf("blkid %s: %v", device, err)
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if slices.Contains([]string{"TYPE", "BLOCK_SIZE", "FSBLOCKSIZE", "FSSIZE", "LABEL"}, key) {
			all[name+".blkid "+key] = value
		}
	}
}

// flattenMessage adds the fields of a message of CSI.
func (d *subject) flattenMessage(t *testing.T, name string, message proto.Message, all facts) {
	t.Helper()
	data, err := protojson.Marshal(message)
	must(t, err)
	d.flattenJSON(t, name, data, all)
}

func (d *subject) flatten(t *testing.T, name string, value any, all facts) {
	t.Helper()
	data, err := json.Marshal(value)
	must(t, err)
	d.flattenJSON(t, name, data, all)
}

func (d *subject) flattenJSON(t *testing.T, name string, data []byte, all facts) {
	t.Helper()
	var value any
	must(t, json.Unmarshal(data, &value))
	d.flattenValue(name, value, all)
}

func (d *subject) flattenValue(name string, value any, all facts) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			d.flattenValue(name+"."+key, field, all)
		}
	case []any:
		for i, element := range v {
			d.flattenValue(name+"["+d.keyOf(element, i)+"]", element, all)
		}
	default:
		all[name] = d.normalize(fmt.Sprint(v))
	}
}

// keyOf returns the index of an element of a list, or for a capability or a text what it is, because their order does
// not matter.
func (d *subject) keyOf(element any, index int) string {
	data, err := json.Marshal(element)
	if err != nil {
		panic(err) // It was JSON.
	}
	if kind := regexp.MustCompile(`"type":"([A-Z_]+)"`).FindSubmatch(data); kind != nil {
		return string(kind[1])
	}
	if text, ok := element.(string); ok {
		return d.normalize(text)
	}
	return fmt.Sprint(index)
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)?( m=\S+)?`)

// normalize replaces what differs between two runs: UIDs, times and directories.
func (d *subject) normalize(text string) string {
	for uid, name := range d.names {
		text = strings.ReplaceAll(text, uid, "<UID of "+name+">")
	}
	text = strings.ReplaceAll(text, d.dir, "<directory>")
	return times.ReplaceAllString(text, "<time>")
}
