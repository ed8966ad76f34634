//go:build e2e

package topolvm

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

// page is a how-to, with the folder of an administrator who follows it.
type page struct{ text, folder string }

func openPage(name string) page {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", name))
	Expect(err).NotTo(HaveOccurred())
	return page{text: string(text), folder: GinkgoT().TempDir()}
}

// section returns a section of the page.
func (p page) section(heading string) string {
	GinkgoHelper()
	_, rest, found := strings.Cut(p.text, "\n## "+heading+"\n")
	Expect(found).To(BeTrue(), "the page has no section %q", heading)
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// follow runs the commands of a section in a shell. Of the two ways to install the operator, it takes Helm. It installs
// both charts with the images of the lab.
func (p page) follow(ctx context.Context, heading string) {
	GinkgoHelper()
	text, _, _ := strings.Cut(p.section(heading), "```")
	ran := 0
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "    ")
		if !isCommand {
			continue
		}
		ran++
		if command = strings.TrimSpace(command); !strings.HasPrefix(command, "make deploy ") {
			p.run(ctx, here(ctx, command))
		}
	}
	Expect(ran).NotTo(BeZero(), "the section %q has no commands", heading)
}

// command runs a command of the page with other names: each name of the page is followed by its replacement.
func (p page) command(ctx context.Context, text string, names ...string) {
	GinkgoHelper()
	Expect(p.text).To(ContainSubstring("\n    "+text+"\n"), "the page has no such command")
	p.run(ctx, here(ctx, strings.NewReplacer(names...).Replace(text)))
}

// here replaces charts and images of the page with those of the test, and answers a question that kubectl lvms asks.
func here(ctx context.Context, command string) string {
	GinkgoHelper()
	switch {
	case strings.HasPrefix(command, "kubectl lvms "):
		return command + " --yes"
	case strings.Contains(command, " topolvm/topolvm "):
		return strings.Replace(command, " topolvm/topolvm ", " "+chartFolder(ctx, manifests)+" ", 1)
	case strings.Contains(command, " charts/lvms-operator "):
		root, err := lab.Root()
		Expect(err).NotTo(HaveOccurred())
		name, err := cluster.Lab.LoadImage(ctx, suite.Archive("LVMS_IMAGE"), cluster.Lab.Registry()+"/lvms-operator:dev")
		Expect(err).NotTo(HaveOccurred())
		repository, digest, _ := strings.Cut(name, "@")
		return strings.NewReplacer(" charts/", " "+filepath.Join(root, "charts")+"/",
			"registry.example.com/lvms-operator", repository,
			"--set-string image.tag=0.2.0", "--set image.digest="+digest).Replace(command)
	}
	return command
}

// run runs a command in the administrator's folder, and returns its output.
func (p page) run(ctx context.Context, line string) string {
	GinkgoHelper()
	By("$ " + line)
	programs := filepath.Dir(suite.Archive("LVMS_HELM")) + ":" + filepath.Dir(suite.Archive("LVMS_PLUGIN"))
	command, err := cluster.Lab.Command(ctx, "bash", "-euo", "pipefail", "-c", line)
	Expect(err).NotTo(HaveOccurred())
	command.Dir = p.folder
	for i, variable := range command.Env {
		if path, is := strings.CutPrefix(variable, "PATH="); is {
			command.Env[i] = "PATH=" + path + ":" + programs
		}
	}
	command.Env = append(command.Env, "HOME="+p.folder)
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
	GinkgoWriter.Println(string(out))
	return string(out)
}

// saveExample writes the LVMCluster of a section to the file that the page names.
func (p page) saveExample(heading string) {
	GinkgoHelper()
	_, rest, found := strings.Cut(p.section(heading), "```yaml\n")
	Expect(found).To(BeTrue(), "the section %q has no manifest", heading)
	manifest, _, _ := strings.Cut(rest, "```")
	Expect(os.WriteFile(filepath.Join(p.folder, "lvmcluster.yaml"), []byte(manifest), 0o600)).To(Succeed())
}
