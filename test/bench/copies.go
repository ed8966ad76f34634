package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	copyRounds = 3
	copyClass  = "copies"
	// copiedMiB is the data in the volume of 1 GiB, in pieces of 1 MiB, one for each 10 MiB.
	copiedMiB = 102
	barePort  = 7777
	// restTime is after which time an agent is at rest: two minutes after its start, it returns to the system what only
	// the start needs.
	restTime = 150 * time.Second
)

var copySource = story.Volume{Namespace: "default", Name: "source", Class: "lvms-" + className, Size: "1Gi",
	Node: "node1", Block: true}

var copyLab = lab.Options{Name: "bench-copies", Nodes: 2, Snapshots: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}}

// runCopies compares the restore of a snapshot of 1 GiB, of which 10 % are written, on another node, with dd of as much
// data from a thin volume of the one node, over TCP, to a new thin volume of the other. It takes the samples in turns.
// It also measures the memory of the node agents while they copy.
func runCopies(ctx context.Context, b *bench) error {
	if err := b.prepareCopies(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, restTime); err != nil {
		return err
	}
	idle, err := b.agentMemory(ctx, func() error { return sleep(ctx, 2*time.Second) })
	if err != nil {
		return err
	}
	var bare, object, claim []time.Duration
	for i := range copyRounds {
		took, err := b.bareCopy(ctx, i)
		if err != nil {
			return err
		}
		bare = append(bare, took)
		r, err := b.restore(ctx, fmt.Sprint("restored-", i))
		if err != nil {
			return err
		}
		object = append(object, r.object)
		claim = append(claim, r.claim)
	}
	busy, err := b.agentMemory(ctx, func() error {
		_, err := b.restore(ctx, "restored-memory")
		return err
	})
	if err != nil {
		return err
	}
	printCopies(middle(bare), middle(object), middle(claim), idle, busy)
	return nil
}

func printCopies(bare, object, claim time.Duration, idle, busy []memory) {
	fmt.Printf("\n| %d MiB of 1 GiB to another node | time | ÷ dd over TCP |\n|---|---|---|\n", copiedMiB)
	for _, row := range []struct {
		what string
		took time.Duration
	}{{"dd over TCP, to a new thin volume", bare}, {"LogicalVolume created, until it is complete", object},
		{"claim created, until it is bound", claim}} {
		fmt.Printf("| %s | %.1f s | %.2f |\n", row.what, row.took.Seconds(), row.took.Seconds()/bare.Seconds())
	}
	fmt.Print("\n| memory of the node agent | working set of the container | without LVM | RssAnon | RssFile | VmRSS " +
		"| VmHWM |\n" + "|---|---|---|---|---|---|---|\n")
	for i, node := range []string{"source", "target"} {
		fmt.Printf("| of the %s, at rest %s |\n| of the %s, while it copies %s |\n", node, idle[i], node, busy[i])
	}
}

// prepareCopies takes a snapshot of a volume with data.
func (b *bench) prepareCopies(ctx context.Context) error {
	if err := b.createThinClass(ctx); err != nil {
		return err
	}
	immediate := storagev1.VolumeBindingImmediate
	if err := b.cluster.Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: copyClass},
		Provisioner: wellknown.DriverName, VolumeBindingMode: &immediate,
		Parameters: map[string]string{wellknown.DeviceClassParameter: className},
		AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: wellknown.TopologyNodeKey, Values: []string{"node2"}}}}}}); err != nil {
		return err
	}
	if err := errors.Join(b.cluster.Claim(ctx, copySource),
		b.cluster.StartPod(ctx, copySource, copySource.Name)); err != nil {
		return err
	}
	if _, err := b.cluster.Shell(ctx, copySource.Namespace, copySource.Name, fmt.Sprintf("for i in $(seq 0 %d); do "+
		"dd if=/dev/urandom of=/dev/data bs=1M count=1 seek=$((i * 10)) conv=notrunc 2>/dev/null || exit 1; done; sync",
		copiedMiB-1)); err != nil {
		return err
	}
	if _, err := b.lab.Nodes()[0].Exec(ctx, "sh", "-c", fmt.Sprintf("lvcreate -qq -W y -y -V 128m -T bench/pool "+
		"-n bare && dd if=/dev/urandom of=/dev/bench/bare bs=1M count=%d iflag=fullblock oflag=direct",
		copiedMiB)); err != nil {
		return err
	}
	return b.cluster.Snapshot(ctx, copySource, "snap")
}

// bareCopy copies data over TCP to a new thin volume, and returns the time until it is on stable storage.
func (b *bench) bareCopy(ctx context.Context, i int) (time.Duration, error) {
	from, to := b.lab.Nodes()[0], b.lab.Nodes()[1]
	device := fmt.Sprint("bench/bare-", i)
	begun := time.Now()
	if _, err := to.Exec(ctx, "lvcreate", "-qq", "-W", "y", "-y", "-V", "128m", "-T", "bench/pool", "-n",
		fmt.Sprint("bare-", i)); err != nil {
		return 0, err
	}
	created := time.Since(begun)
	received := make(chan error, 1)
	go func() {
		_, err := to.Exec(ctx, "timeout", "300", "sh", "-c", fmt.Sprintf("busybox nc -l -p %d </dev/null | "+
			"dd of=/dev/%s bs=1M iflag=fullblock oflag=direct conv=notrunc,fsync", barePort, device))
		received <- err
	}()
	if _, err := to.Exec(ctx, "timeout", "60", "sh", "-c", fmt.Sprintf("until grep -qi ':%04x 0' /proc/net/tcp "+
		"/proc/net/tcp6; do sleep 0.1; done", barePort)); err != nil {
		return 0, err
	}
	begun = time.Now()
	_, err := from.Exec(ctx, "bash", "-c", fmt.Sprintf("dd if=/dev/bench/bare bs=1M count=%d iflag=direct "+
		">/dev/tcp/%s/%d", copiedMiB, to.IP(), barePort))
	if err := errors.Join(err, <-received); err != nil {
		return 0, err
	}
	took := created + time.Since(begun)
	_, err = to.Exec(ctx, "lvremove", "-qq", "-y", device)
	return took, err
}

// restored is the time of a restore: from the creation of the LogicalVolume until it is complete, and from that of the
// claim until it is bound.
type restored struct{ object, claim time.Duration }

// restore restores the snapshot on the second node, and removes the volume again.
func (b *bench) restore(ctx context.Context, name string) (restored, error) {
	v := story.Volume{Namespace: "default", Name: name, Class: copyClass, Size: "1Gi", Block: true, Snapshot: "snap"}
	begun := time.Now()
	if err := b.cluster.Claim(ctx, v); err != nil {
		return restored{}, err
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: name}, claim); err != nil {
		return restored{}, err
	}
	object := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
	var created time.Time
	if err := b.poll(ctx, "LogicalVolume of "+name, object, func() bool {
		if created.IsZero() {
			created = time.Now()
		}
		return object.Status.VolumeID != ""
	}); err != nil {
		return restored{}, err
	}
	r := restored{object: time.Since(created)}
	if err := b.untilBound(ctx, name); err != nil {
		return restored{}, err
	}
	r.claim = time.Since(begun)
	return r, b.cluster.Unclaim(ctx, v)
}

// memoryKeys are what is measured. Container is the working set of the container as the kubelet reports it: the memory
// of its cgroup without inactive file pages (memory.current and memory.stat of cgroup v2). Agent is the same without
// RssAnon of the processes of LVM in the container: commands, and dmeventd, which on a host with systemd is a service
// of its own. The others are fields of /proc/PID/status of the agent (proc_pid_status(5)).
var memoryKeys = [...]string{"Container:", "Agent:", "RssAnon:", "RssFile:", "VmRSS:", "VmHWM:"}

// memory has the maximum of each field in memoryKeys, in KiB.
type memory [len(memoryKeys)]int

func (m memory) String() string {
	var text strings.Builder
	for _, value := range m {
		fmt.Fprintf(&text, "| %.1f MiB ", float64(value)/1024)
	}
	return strings.TrimSpace(text.String())
}

// agentMemory returns the maximum memory of the agent of each node while something is done. VmHWM begins with it.
func (b *bench) agentMemory(ctx context.Context, do func() error) ([]memory, error) {
	const sample = `rm -f /run/bench-end; pid=$(pgrep -o -f '^/lvms vgmanager') || exit 1
echo 5 >/proc/$pid/clear_refs || exit 1
group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/$pid/cgroup)
while [ ! -e /run/bench-end ]; do
others=0
for p in $(cat $group/cgroup.procs); do [ $p = $pid ] ||
others=$((others + $(awk '/^RssAnon/ {print $2}' /proc/$p/status 2>/dev/null || true) + 0)); done
awk -v used="$(cat $group/memory.current)" -v others=$others '/^inactive_file/ {set = int((used - $2) / 1024)
print "Container:", set; print "Agent:", set - others}' $group/memory.stat || exit 1
awk '/^VmRSS|^VmHWM|^Rss/ {print $1, $2}' /proc/$pid/status || exit 1; sleep 0.1; done`
	type result struct {
		out string
		err error
	}
	results := make([]chan result, len(b.lab.Nodes()))
	for i, node := range b.lab.Nodes() {
		results[i] = make(chan result, 1)
		go func() {
			out, err := node.Exec(ctx, "sh", "-c", sample)
			results[i] <- result{out: out.Stdout, err: err}
		}()
	}
	err := errors.Join(sleep(ctx, time.Second), do())
	for _, node := range b.lab.Nodes() {
		_, ended := node.Exec(ctx, "touch", "/run/bench-end")
		err = errors.Join(err, ended)
	}
	var list []memory
	for _, r := range results {
		got := <-r
		err = errors.Join(err, got.err)
		list = append(list, highest(got.out))
	}
	return list, err
}

// highest returns the maximum of samples of /proc/PID/status.
func highest(samples string) memory {
	var most memory
	for line := range strings.Lines(samples) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.Atoi(text)
		if i := slices.Index(memoryKeys[:], key); err == nil && i >= 0 {
			most[i] = max(most[i], value)
		}
	}
	return most
}
