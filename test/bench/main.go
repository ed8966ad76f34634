// Command bench measures the node agent on a lab node in one run: its cost while idle, the time until a new disk is
// reported, and the time for a device class compared with plain LVM commands; or a burst of claims on two nodes, and
// the start of a Pod with a new claim; or copies of a volume to another node, and what they cost other volumes; or
// moves of volumes to another node. Machines are shared and noisy: if possible, times are ratios; counts of processes
// and API calls are exact.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	limit     = time.Hour
	reader    = "bench-metrics"
	className = "bench"
	diskSize  = 400 * lab.MiB
	repeats   = 5
)

func main() {
	image := flag.String("image", "", "OCI archive of the operator's image")
	rest := flag.Duration("rest", 10*time.Minute, "how long the idle node is measured")
	burst := flag.Bool("burst", false,
		"measure only 50 claims that are created at once on two nodes, and the start of a Pod with a new claim")
	copied := flag.Bool("copies", false,
		"measure only copies of a volume to another node, and the memory of the agents")
	moved := flag.Bool("moves", false,
		"measure only how long a workload waits while its volume is moved to another node")
	beside := flag.String("neighbor", "",
		"folder of fio: measure only what copies cost a volume in the thin pool to which they are written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	options, measure := nodeLab, func(ctx context.Context, b *bench) error { return b.run(ctx, *rest) }
	if *burst {
		options, measure = burstLab, runBurst
	}
	if *copied {
		options, measure = copyLab, runCopies
	}
	if *moved {
		options, measure = moveLab, runMoves
	}
	if *beside != "" {
		options, measure = neighborLab, runNeighbor(*beside)
	}
	if err := onLab(ctx, options, *image, measure); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// nodeLab is the lab cluster on which the agent is measured.
var nodeLab = lab.Options{Name: "bench", Nodes: 1, Disks: []lab.DiskSpec{{Size: diskSize}, {Size: diskSize}}}

// onLab starts a lab cluster, installs the operator, measures, and stops the cluster.
func onLab(ctx context.Context, options lab.Options, image string,
	measure func(context.Context, *bench) error) (err error) {
	options.Progress = os.Stdout
	l, err := lab.Up(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down(context.WithoutCancel(ctx))) }()
	c, err := story.Open(l)
	if err != nil {
		return err
	}
	if err := c.Install(ctx, image); err != nil {
		return err
	}
	return measure(ctx, &bench{lab: l, node: l.Nodes()[0], cluster: c})
}

// run measures the agent of a node.
func (b *bench) run(ctx context.Context, rest time.Duration) error {
	var err error
	if b.token, err = b.metricsToken(ctx); err != nil {
		return err
	}
	// In discovery mode the agent already runs, so that the start of a Pod is not measured.
	if err := b.apply(ctx, nil); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{
		b.waitForDevices, b.groupAgainstLVM, b.newDisk, func(ctx context.Context) error { return b.atRest(ctx, rest) },
	} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

type bench struct {
	lab     *lab.Lab
	node    *lab.Node
	cluster *story.Cluster
	token   string // of an account with permission to read metrics
}

// apply sets the device classes of the LVMCluster.
func (b *bench) apply(ctx context.Context, classes []v1alpha1.DeviceClass) error {
	object := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "bench", Namespace: story.OperatorNamespace}}
	err := b.cluster.Get(ctx, client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	object.Spec.Storage.DeviceClasses = classes
	if err != nil {
		return b.cluster.Create(ctx, object)
	}
	return b.cluster.Update(ctx, object)
}

func (b *bench) status(ctx context.Context) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := b.cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: b.node.Name()}, status)
	return status, client.IgnoreNotFound(err)
}

// until polls every 20 ms, which is much shorter than the measured times.
func (b *bench) until(ctx context.Context, what string, done func(*v1alpha1.LVMVolumeGroupNodeStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		status, err := b.status(ctx)
		if err == nil && done(status) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (b *bench) waitForDevices(ctx context.Context) error {
	return b.until(ctx, "the list of devices",
		func(s *v1alpha1.LVMVolumeGroupNodeStatus) bool { return len(s.Status.Devices) > 0 })
}

// groupAgainstLVM compares the time from a device class in the LVMCluster to its Ready volume group, twice with the
// same disk, with the LVM commands for the same result.
func (b *bench) groupAgainstLVM(ctx context.Context) error {
	var ours, bare []time.Duration
	var cost map[string]float64
	for range repeats {
		took, err := b.bareLVM(ctx)
		if err != nil {
			return err
		}
		bare = append(bare, took)
		if took, cost, err = b.deviceClass(ctx); err != nil {
			return err
		}
		ours = append(ours, took)
	}
	slices.Sort(ours)
	slices.Sort(bare)
	us := ours[repeats/2]
	they := bare[repeats/2]
	fmt.Printf("from LVMCluster to Ready: %v, the bare commands of LVM: %v, medians of %d, ratio %.2f\n",
		us.Round(time.Millisecond), they.Round(time.Millisecond), repeats, float64(us)/float64(they))
	fmt.Println("for that the agent started or wrote:")
	printCosts(cost)
	return nil
}

// bareLVM runs the commands of a careful administrator: check, create, check.
func (b *bench) bareLVM(ctx context.Context) (time.Duration, error) {
	commands := [][]string{
		{"lsblk", "--json"}, {"wipefs", "--no-act", "/dev/ubdb"}, {"lvm", "fullreport", "--reportformat", "json"},
		{"vgcreate", "bare", "/dev/ubdb"},
		{"lvcreate", "--type", "thin-pool", "--extents", "90%FREE", "--chunksize", "128k", "--zero", "y", "--name",
			"pool", "bare"},
		{"lvm", "fullreport", "--reportformat", "json"},
	}
	start := time.Now()
	for _, command := range commands {
		if err := b.exec(ctx, command...); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	return took, errors.Join(b.exec(ctx, "vgremove", "--yes", "bare"), b.exec(ctx, "pvremove", "/dev/ubdb"))
}

func (b *bench) exec(ctx context.Context, command ...string) error {
	result, err := b.node.Exec(ctx, command...)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, result.Stderr)
	}
	return nil
}

func (b *bench) deviceClass(ctx context.Context) (time.Duration, map[string]float64, error) {
	class := v1alpha1.DeviceClass{
		Name: className, Default: true, DeviceSelector: &v1alpha1.DeviceSelector{
			Paths: []v1alpha1.DevicePath{"/dev/ubdb"}},
		ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, OverprovisionRatio: 10},
	}
	before, err := b.counters(ctx)
	if err != nil {
		return 0, nil, err
	}
	start := time.Now()
	if err := b.apply(ctx, []v1alpha1.DeviceClass{class}); err != nil {
		return 0, nil, err
	}
	ready := func(s *v1alpha1.LVMVolumeGroupNodeStatus) bool {
		return len(s.Status.NodeStatus) == 1 && s.Status.NodeStatus[0].Status == v1alpha1.VGStatusReady &&
			s.Status.NodeStatus[0].ThinPool != nil
	}
	if err := b.until(ctx, "the volume group", ready); err != nil {
		return 0, nil, err
	}
	took := time.Since(start)
	after, err := b.counters(ctx)
	if err != nil {
		return 0, nil, err
	}
	object := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "bench", Namespace: story.OperatorNamespace}}
	if err := b.cluster.Remove(ctx, object, 3*time.Minute); err != nil {
		return 0, nil, err
	}
	return took, difference(before, after), errors.Join(b.apply(ctx, nil), b.waitForDevices(ctx))
}

// newDisk measures the time from attaching a disk to its entry in the status.
func (b *bench) newDisk(ctx context.Context) error {
	var times []time.Duration
	for range repeats {
		start := time.Now()
		disk, err := b.node.AddDisk(ctx, lab.DiskSpec{Name: "extra", Size: diskSize})
		if err != nil {
			return err
		}
		there := func(s *v1alpha1.LVMVolumeGroupNodeStatus) bool {
			return slices.ContainsFunc(s.Status.Devices, func(d v1alpha1.DeviceStatus) bool {
				return d.Name == disk.Device && d.State == v1alpha1.DeviceAvailable
			})
		}
		if err := b.until(ctx, "the new disk "+disk.Device, there); err != nil {
			return err
		}
		times = append(times, time.Since(start))
		if err := b.node.RemoveDisk(ctx, disk.Name); err != nil {
			return err
		}
		gone := func(s *v1alpha1.LVMVolumeGroupNodeStatus) bool { return !there(s) }
		if err := b.until(ctx, "the removal of "+disk.Device, gone); err != nil {
			return err
		}
	}
	slices.Sort(times)
	fmt.Printf("from a new disk to its place in the status: %v, median of %d, the longest %v\n",
		times[repeats/2].Round(time.Millisecond), repeats, times[repeats-1].Round(time.Millisecond))
	return nil
}

// atRest counts the processes and API writes of an idle node with a thin device class.
func (b *bench) atRest(ctx context.Context, rest time.Duration) error {
	class := v1alpha1.DeviceClass{Name: className, Default: true,
		DeviceSelector: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/ubdb"}},
		ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, OverprovisionRatio: 10}}
	if err := b.apply(ctx, []v1alpha1.DeviceClass{class}); err != nil {
		return err
	}
	if err := b.cluster.WaitReady(ctx, "bench"); err != nil {
		return err
	}
	// Wait until the work of the setup is complete.
	if err := sleep(ctx, 90*time.Second); err != nil {
		return err
	}
	before, err := b.counters(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, rest); err != nil {
		return err
	}
	after, err := b.counters(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("in %v at rest the agent started or wrote:\n", rest)
	printCosts(difference(before, after))
	return nil
}

func difference(before, after map[string]float64) map[string]float64 {
	more := map[string]float64{}
	for name, n := range after {
		if n > before[name] {
			more[name] = n - before[name]
		}
	}
	return more
}

func printCosts(costs map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		fmt.Printf("  %6.0f  %s\n", costs[name], name)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// metricsToken returns the token of an account that has only permission to read metrics.
func (b *bench) metricsToken(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: reader, Namespace: story.OperatorNamespace}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reader},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: reader,
			Namespace: story.OperatorNamespace}},
	}
	if err := errors.Join(b.cluster.Create(ctx, account), b.cluster.Create(ctx, role),
		b.cluster.Create(ctx, binding)); err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{}
	err := b.cluster.SubResource("token").Create(ctx, account, request)
	return request.Status.Token, err
}

// counters reads the counters of processes and write requests from the agent's metrics.
func (b *bench) counters(ctx context.Context) (map[string]float64, error) {
	pods := &corev1.PodList{}
	if err := b.cluster.List(ctx, pods, client.InNamespace(story.OperatorNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": "vg-manager"}); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("found %d node agents, want 1", len(pods.Items))
	}
	// The lab's agents use self-signed certificates.
	transport := &http.Transport{DialContext: b.lab.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"https://"+pods.Items[0].Status.PodIP+":8443/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of the agent: %s", response.Status)
	}
	return readCounters(response.Body)
}

// readCounters returns the counters in Prometheus' text format.
func readCounters(text io.Reader) (map[string]float64, error) {
	counters := map[string]float64{}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), "} ")
		command := strings.HasPrefix(name, "lvms_host_commands_total{")
		write := strings.HasPrefix(name, "rest_client_requests_total{") && !strings.Contains(name, `method="GET"`)
		if !found || !command && !write {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", lines.Text(), err)
		}
		counters[name+"}"] = n
	}
	return counters, lines.Err()
}
