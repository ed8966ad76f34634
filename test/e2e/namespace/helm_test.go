//go:build e2e

package namespace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// release is the name of the release of the Helm chart.
const release = "lvms"

var _ = Describe("LVM Storage with the Helm chart", Label("helm"), func() {
	It("installs, upgrades and removes it with Helm", livesWithHelm, NodeTimeout(50*time.Minute))
})

// written is a volume whose content is compared.
var written = story.Volume{Namespace: "default", Name: "written", Class: "lvms-vg1", Size: "256Mi"}

func livesWithHelm(ctx SpecContext) {
	cluster = suite.Up(ctx, lab.Options{Name: "helm", Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	cluster.Namespace = namespace
	disks := cluster.ContentOfDisks(ctx)
	first := pushed(ctx, "LVMS_IMAGE")
	next := pushed(ctx, "LVMS_NEXT_IMAGE")

	By("installing the chart")
	cluster.Run(ctx, "create", "namespace", namespace)
	cluster.Run(ctx, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged")
	helm(ctx, append([]string{"install", release, chartFolder(), "--wait", story.Timeout}, first.flags()...)...)
	cluster.Configure(ctx, strings.ReplaceAll(manifest, "NAMESPACE", namespace))
	sum := startUsing(ctx)

	By("upgrading the release while a Pod writes")
	helm(ctx, append([]string{"upgrade", release, chartFolder(), "--reset-then-reuse-values", "--wait", story.Timeout},
		next.flags()...)...)
	agentsHave(ctx, next.name())
	stillUsing(ctx, sum)

	By("uninstalling the release too early, which is refused and can be withdrawn")
	out, err := tryHelm(ctx, "uninstall", release)
	Expect(err).To(HaveOccurred())
	Expect(out).To(ContainSubstring("LVMCluster my-lvmcluster exists"))
	helm(ctx, "rollback", release, "2", "--wait", story.Timeout)
	Expect(helm(ctx, "status", release)).To(ContainSubstring("STATUS: deployed"))
	stillUsing(ctx, sum)

	By("uninstalling the release without its check, which keeps the volumes")
	helm(ctx, "uninstall", release, "--no-hooks", "--wait", story.Timeout)
	cluster.StillWrites(ctx)
	helm(ctx, append([]string{"install", release, chartFolder(), "--wait", story.Timeout}, next.flags()...)...)
	agentsHave(ctx, next.name())
	stillUsing(ctx, sum)

	By("removing everything")
	stopUsing(ctx)
	cluster.Run(ctx, "delete", "lvmcluster", "my-lvmcluster", "-n", namespace, story.Timeout)
	helm(ctx, "uninstall", release, "--wait", story.Timeout)
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pods", "-n", namespace, "-o", "name").
		Should(BeEmpty())
	kinds := strings.Fields(cluster.Run(ctx, "get", "crd", "-o", "name"))
	Expect(kinds).To(ContainElement(HaveSuffix("/logicalvolumes.topolvm.io")), "Helm does not delete CRDs")
	cluster.Run(ctx, append([]string{"delete", story.Timeout}, ours(kinds)...)...)
	Expect(cluster.ContentOfDisks(ctx)).To(Equal(disks))
}

// ours returns the CRDs of the product.
func ours(kinds []string) []string {
	var found []string
	for _, kind := range kinds {
		if strings.HasSuffix(kind, "topolvm.io") {
			found = append(found, kind)
		}
	}
	return found
}

// startUsing starts a Pod that writes, and one whose content has the returned checksum.
func startUsing(ctx context.Context) string {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "256Mi"})).
		To(Succeed())
	cluster.StartWriting(ctx, "data")
	Expect(cluster.Claim(ctx, written)).To(Succeed())
	Expect(cluster.StartPod(ctx, written, "reader")).To(Succeed())
	sum, err := cluster.Write(ctx, written, "reader")
	Expect(err).NotTo(HaveOccurred())
	return sum
}

// stillUsing checks both Pods, stages the volume of the second one again, and creates a volume.
func stillUsing(ctx context.Context, sum string) {
	GinkgoHelper()
	cluster.StillWrites(ctx)
	Expect(cluster.StopPod(ctx, "default", "reader")).To(Succeed())
	Expect(cluster.StartPod(ctx, written, "reader")).To(Succeed())
	Expect(cluster.Checksum(ctx, written, "reader")).To(Equal(sum))
	another := story.Volume{Namespace: "default", Name: "another", Class: "lvms-vg1", Size: "256Mi"}
	Expect(cluster.Claim(ctx, another)).To(Succeed())
	Expect(cluster.StartPod(ctx, another, "another")).To(Succeed())
	Expect(cluster.StopPod(ctx, "default", "another")).To(Succeed())
	Expect(cluster.Unclaim(ctx, another)).To(Succeed())
}

func stopUsing(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, "default", "reader")).To(Succeed())
	Expect(cluster.StopPod(ctx, "default", "writer")).To(Succeed())
	Expect(cluster.Unclaim(ctx, written)).To(Succeed())
	Expect(cluster.Unclaim(ctx, story.Volume{Namespace: "default", Name: "data"})).To(Succeed())
}

// agentsHave waits until the node agents run an image and the LVMCluster is ready.
func agentsHave(ctx context.Context, image string) {
	GinkgoHelper()
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "daemonset", "vg-manager",
		"-n", namespace, "-o", "jsonpath={.spec.template.spec.containers[0].image}").Should(Equal(image))
	cluster.Run(ctx, "rollout", "status", "daemonset/vg-manager", "-n", namespace, story.Timeout)
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
}

// image is an image in the lab's registry.
type image struct{ repository, digest string }

func (i image) name() string { return i.repository + "@" + i.digest }

func (i image) flags() []string {
	return []string{"--set=image.repository=" + i.repository, "--set=image.digest=" + i.digest}
}

// pushed pushes the archive that an environment variable names to the lab's registry.
func pushed(ctx context.Context, variable string) image {
	GinkgoHelper()
	name, err := cluster.Lab.LoadImage(ctx, suite.Archive(variable), cluster.Lab.Registry()+"/lvms-operator:dev")
	Expect(err).NotTo(HaveOccurred())
	repository, digest, found := strings.Cut(name, "@")
	Expect(found).To(BeTrue(), "%s has no digest", name)
	return image{repository: repository, digest: digest}
}

func chartFolder() string {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(root, "charts", "lvms-operator")
}

// helm runs helm, which must succeed, and returns what it prints.
func helm(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := tryHelm(ctx, args...)
	Expect(err).NotTo(HaveOccurred(), out)
	return out
}

// tryHelm runs helm in the namespace and returns what it prints.
func tryHelm(ctx context.Context, args ...string) (string, error) {
	GinkgoHelper()
	program := os.Getenv("LVMS_HELM")
	Expect(program).NotTo(BeEmpty(), "LVMS_HELM names the helm program: run `make test-long ITEMS=e2e/`")
	command, err := cluster.Lab.Command(ctx, program, append(args, "--namespace", namespace)...)
	Expect(err).NotTo(HaveOccurred())
	command.Env = append(command.Env, "HOME="+GinkgoT().TempDir())
	out, err := command.CombinedOutput()
	return string(out), err
}
