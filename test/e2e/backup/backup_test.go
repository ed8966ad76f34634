//go:build e2e

package backup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/api"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/test/story"
)

const size = 256 << 20

var (
	data      = story.Volume{Namespace: namespace, Name: "data", Class: class, Size: "256Mi", Block: true}
	snapshots = []string{"first", "second"}
)

// software is the Pod of the backup software. It also writes the data of the volume that it backs up.
const software = `
apiVersion: v1
kind: Pod
metadata: {name: backup, namespace: default}
spec:
  serviceAccountName: backup
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command: [/bin/sh, -c, "trap exit TERM; sleep 86400 & wait"]
    volumeMounts: [{name: backup, mountPath: /backup}]
    volumeDevices: [DEVICES]
  volumes:
  - {name: backup, emptyDir: {}}
VOLUMES`

// startSoftware starts the Pod with block volumes, as the devices /dev/NAME.
func startSoftware(ctx context.Context, program string, claims ...string) {
	GinkgoHelper()
	var devices []string
	var volumes strings.Builder
	for _, claim := range claims {
		devices = append(devices, "{name: "+claim+", devicePath: /dev/"+claim+"}")
		volumes.WriteString("  - {name: " + claim + ", persistentVolumeClaim: {claimName: " + claim + "}}\n")
	}
	Expect(cluster.ApplyManifest(ctx, strings.NewReplacer("IMAGE", cluster.Lab.Registry()+"/busybox:1",
		"DEVICES", strings.Join(devices, ", "), "VOLUMES", volumes.String()).Replace(software))).To(Succeed())
	Expect(cluster.WaitRunning(ctx, namespace, "backup")).To(Succeed())
	file, err := os.Open(program)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	out, err := cluster.Kubectl(ctx, file, "exec", "-i", "-n", namespace, "backup", "--", "/bin/sh", "-c",
		"cat >/backup/client && chmod 755 /backup/client")
	Expect(err).NotTo(HaveOccurred(), out)
}

func shell(ctx context.Context, line string) string {
	GinkgoHelper()
	out, err := cluster.Shell(ctx, namespace, "backup", line)
	Expect(err).NotTo(HaveOccurred(), out)
	return strings.TrimSpace(out)
}

// same checks that a file is the content of the volume that was restored from a snapshot, byte for byte.
func same(ctx context.Context, file, snapshot string) {
	GinkgoHelper()
	Expect(shell(ctx, "cmp /backup/"+file+" /dev/"+snapshot+" && stat -c %s /backup/"+file)).To(Equal("268435456"))
}

// backsUp writes every second chunk of a volume, takes a snapshot, changes a part, and takes another one.
func backsUp(ctx SpecContext) {
	software := program(ctx)
	Expect(cluster.Claim(ctx, data)).To(Succeed())
	startSoftware(ctx, software, data.Name)
	shell(ctx, "/backup/client -scatter /dev/data -step 65536")
	Expect(cluster.Snapshot(ctx, data, snapshots[0])).To(Succeed())
	shell(ctx, "dd if=/dev/urandom of=/dev/data bs=1M seek=3 count=5 conv=notrunc,fsync 2>&1 && "+
		"dd if=/dev/urandom of=/dev/data bs=1M seek=200 count=2 conv=notrunc,fsync 2>&1")
	Expect(cluster.Snapshot(ctx, data, snapshots[1])).To(Succeed())
	shell(ctx, "dd if=/dev/urandom of=/dev/data bs=1M seek=100 count=1 conv=notrunc,fsync 2>&1")
	Expect(cluster.StopPod(ctx, namespace, "backup")).To(Succeed())
	for _, snapshot := range snapshots {
		restored := story.Volume{Namespace: namespace, Name: snapshot, Class: class, Size: "256Mi", Block: true,
			Snapshot: snapshot}
		Expect(cluster.Claim(ctx, restored)).To(Succeed())
	}
	startSoftware(ctx, software, snapshots...)

	By("backing up all blocks that are allocated")
	full, err := client(ctx, "-snapshot first -device /dev/first -file /backup/full")
	Expect(err).NotTo(HaveOccurred())
	Expect(full).To(Equal(summary{Capacity: size, Copied: size / 2, Ranges: 2048}))
	same(ctx, "full", "first")

	By("adding the blocks that have changed to a copy of the backup")
	shell(ctx, "cp /backup/full /backup/incremental")
	changes, err := client(ctx, "-base first -snapshot second -device /dev/second -file /backup/incremental")
	Expect(err).NotTo(HaveOccurred())
	Expect(changes).To(Equal(summary{Capacity: size, Copied: 7 << 20, Ranges: 2}))
	same(ctx, "incremental", "second")
	same(ctx, "full", "first")
}

// killAgent waits for a file of the Pod, which the kubelet has on the node, and kills the node agent at once.
const killAgent = `until ls /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/backup/began >/dev/null 2>&1
do sleep 0.02; done; pkill -KILL -f '^/lvms vgmanager'`

// resumes kills the agent when the first of 256 messages was read. The client resumes at the offset that it has.
func resumes(ctx SpecContext) {
	killed := make(chan string, 1)
	go func() {
		defer GinkgoRecover()
		killed <- cluster.OnNode1(ctx, killAgent)
	}()
	got, err := client(ctx, "-snapshot first -device /dev/first -file /backup/resumed -max-results 8 "+
		"-began /backup/began -retries 300")
	Expect(err).NotTo(HaveOccurred())
	Eventually(killed).WithContext(ctx).Should(Receive())
	GinkgoWriter.Printf("resumed: %+v\n", got)
	Expect(got.Resumed).NotTo(BeEmpty(), "the call ended before the agent was killed")
	Expect(got.Resumed[0]).To(BeNumerically(">", 0))
	Expect(got.Copied).To(Equal(int64(size / 2)))
	Expect(got.Ranges).To(Equal(2048))
	same(ctx, "resumed", "first")
}

// refuses calls the server directly, with tokens that the library does not request.
func refuses(ctx SpecContext) {
	valid := token(ctx, "backup", "snapshot-metadata.topolvm.io")
	count, err := allocated(ctx, valid, "first")
	Expect(err).NotTo(HaveOccurred())
	Expect(count).To(Equal(2048))

	By("calling without permission, and with a token for another audience")
	_, err = allocated(ctx, token(ctx, "nobody", "snapshot-metadata.topolvm.io"), "first")
	Expect(status.Code(err)).To(Equal(codes.PermissionDenied), "%v", err)
	Expect(err).To(MatchError(ContainSubstring(
		"system:serviceaccount:default:nobody has no permission to get VolumeSnapshot default/first")))
	for _, audience := range []string{"other", "https://kubernetes.default.svc"} {
		_, err = allocated(ctx, token(ctx, "backup", audience), "first")
		Expect(status.Code(err)).To(Equal(codes.Unauthenticated), "%v", err)
	}

	By("asking for a snapshot of a thick volume")
	thick := story.Volume{Namespace: namespace, Name: "thick", Class: "lvms-thick", Size: "64Mi", Block: true}
	Expect(cluster.Claim(ctx, thick)).To(Succeed())
	Expect(cluster.StartPod(ctx, thick, "thick")).To(Succeed())
	Expect(cluster.ApplyManifest(ctx, `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: thick, namespace: default}
spec:
  volumeSnapshotClassName: lvms-vg1
  source: {persistentVolumeClaimName: thick}
`)).To(Succeed())
	Eventually(func() string {
		return cluster.Run(ctx, "get", "volumesnapshot", "-n", namespace, "thick", "-o",
			"jsonpath={.status.error.message}")
	}).WithContext(ctx).ShouldNot(BeEmpty())
	_, err = allocated(ctx, valid, "thick")
	Expect(status.Code(err)).To(Equal(codes.Unavailable), "%v", err)
	Expect(err).To(MatchError(And(ContainSubstring("VolumeSnapshot default/thick is not ready to use: "),
		ContainSubstring("thick"))))
	GinkgoWriter.Println(err)
	_, err = allocated(ctx, valid, "none")
	Expect(status.Code(err)).To(Equal(codes.NotFound), "%v", err)

	cluster.Run(ctx, "delete", "volumesnapshot", "-n", namespace, "thick", story.Timeout)
	Expect(cluster.StopPod(ctx, namespace, "thick")).To(Succeed())
	Expect(cluster.Unclaim(ctx, thick)).To(Succeed())
}

// token returns a token of a ServiceAccount for an audience.
func token(ctx context.Context, account, audience string) string {
	GinkgoHelper()
	return cluster.Run(ctx, "create", "token", account, "-n", namespace, "--audience", audience)
}

// allocated calls the operator from outside of the cluster, and returns the number of ranges. It verifies the
// certificate with the published authority.
func allocated(ctx context.Context, token, snapshot string) (int, error) {
	GinkgoHelper()
	ca, err := base64.StdEncoding.DecodeString(cluster.Run(ctx, "get", published, "topolvm.io", "-o",
		"jsonpath={.spec.caCert}"))
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(ca)).To(BeTrue())
	address := cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l",
		"app.kubernetes.io/name=lvms-operator", "-o", "jsonpath={.items[0].status.podIP}") + ":8445"
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
			ServerName: "lvms-snapshot-metadata.openshift-lvm-storage.svc"})),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return cluster.Lab.Dial(ctx, "tcp", address)
		}))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	stream, err := api.NewSnapshotMetadataClient(connection).GetMetadataAllocated(ctx,
		&api.GetMetadataAllocatedRequest{SecurityToken: token, Namespace: namespace, SnapshotName: snapshot})
	Expect(err).NotTo(HaveOccurred())
	count := 0
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		count += len(message.GetBlockMetadata())
	}
}

// removes deletes what uses the storage, the LVMCluster and the operator.
func removes(ctx SpecContext) {
	Expect(cluster.StopPod(ctx, namespace, "backup")).To(Succeed())
	for _, name := range append(snapshots, data.Name) {
		Expect(cluster.Unclaim(ctx, story.Volume{Namespace: namespace, Name: name})).To(Succeed())
	}
	for _, name := range snapshots {
		Expect(cluster.RemoveSnapshot(ctx, namespace, name)).To(Succeed())
	}
	cluster.Run(ctx, "delete", "lvmcluster", "-n", story.OperatorNamespace, "my-lvmcluster", story.Timeout)
	gone := func(args ...string) {
		GinkgoHelper()
		Eventually(func() string {
			return cluster.Run(ctx, append([]string{"get", "-o", "name", "--ignore-not-found"}, args...)...)
		}).WithContext(ctx).Should(BeEmpty())
	}
	gone(published, "topolvm.io")
	Expect(cluster.Run(ctx, "get", "secret", "-n", story.OperatorNamespace, "lvms-agent-ca", "-o", "name")).To(
		Equal("secret/lvms-agent-ca"))
	out, err := cluster.Undeploy(ctx)
	Expect(err).NotTo(HaveOccurred(), out)
	gone("secret", "-n", story.OperatorNamespace, "lvms-agent-ca")
}
