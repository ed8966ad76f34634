package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// previousCommit is the commit of the previous version, 0.1.0. Update it together with the version.
const previousCommit = "60d094bf615766907a5ea7cf66b73fffdfd7a928"

// nextVersion is the version of the image to which test/e2e/catalog upgrades: the same program with another version.
const nextVersion = "0.3.0"

// artifact is something that tests or releases use. Go knows which programs are up to date, so each is built again.
type artifact struct {
	needs []string
	steps []process
	// then runs after the steps.
	then func(ctx context.Context, w *workspace) error
}

// building is the state of an artifact in this process, which builds each once.
type building struct {
	mutex sync.Mutex
	ended bool
	err   error
}

// once calls build, unless it has ended before. A build that was stopped with the item that needed it has not ended.
func (b *building) once(ctx context.Context, build func() error) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !b.ended {
		b.err = build()
		b.ended = b.err == nil || ctx.Err() == nil
	}
	return b.err
}

// goBuild returns the step that builds a program. dir is the module.
func goBuild(name, dir, pkg string, flags ...string) process {
	args := append([]string{"go", "build"}, flags...)
	return process{dir: dir, args: append(args, "-o", "${BIN}/"+name, pkg)}
}

func (p process) with(env ...string) process {
	p.env = env
	return p
}

func program(name, dir, pkg string) artifact {
	return artifact{steps: []process{goBuild(name, dir, pkg)}}
}

// fipsModule is the version of Go's FIPS 140-3 module in the programs of the images: the certified one in releases and
// in the images for the tests of FIPS mode. Without it, a program does not run in FIPS mode: this needs no second
// compilation of all packages, and the module of Go 1.26 uses 32 MiB for its entropy source in FIPS mode.
const fipsModule = "GOFIPS140="

// versioned returns the step that builds a program of an image, with the version.
func versioned(name, pkg, flags string, env ...string) process {
	return goBuild(name, "", pkg, "-ldflags", flags).with(env...)
}

const small = "-s -w" // of programs without a version

// artifacts are all artifacts by name, besides the sets of programs of the lab (programs/SET) and the compiled tests
// (bare/PACKAGE).
func artifacts() map[string]artifact {
	all := map[string]artifact{
		"lab": program("lab", "", "./test/lab/cmd/lab"),
		// Whether the machine can run a node. It builds the kernel of the nodes first.
		"boot":        {needs: []string{"lab"}, steps: []process{{args: []string{"${LAB}", "doctor", "--boot"}}}},
		"image-tool":  program("image", "", "./hack/image"),
		"rootfs-tool": program("rootfs", "", "./hack/rootfs"),
		"bridge": {
			needs: []string{"lab"},
			steps: []process{goBuild("bridge", "", "./console-plugin/bridge")},
		},
		"demo":           program("demo", "", "./test/demo"),
		"controller-gen": program("controller-gen", "hack/tools", "sigs.k8s.io/controller-tools/cmd/controller-gen"),
		"bundle":         program("bundle", "hack/bundle", "."),
		"catalog":        program("catalog", "hack/bundle", "./catalog"),
		"chart":          program("chart", "hack/chart", "."),
		"helm":           program("helm", "hack/chart", "helm.sh/helm/v3/cmd/helm"),
		"golangci-lint": program("golangci-lint", "hack/tools/golangci-lint",
			"github.com/golangci/golangci-lint/v2/cmd/golangci-lint"),
		// A part of vale is written in C.
		"vale": {steps: []process{goBuild("vale", "hack/tools/vale", "github.com/vale-cli/vale/v3/cmd/vale").with(
			"CGO_ENABLED=1", "CGO_CFLAGS=-w")}},
		"hugo":         program("hugo", "hack/tools/hugo", "github.com/gohugoio/hugo"),
		"lvms":         {steps: []process{versioned("lvms", "./cmd/lvms", "${LDFLAGS}", fipsModule+"off")}},
		"kubectl-lvms": {steps: []process{versioned("kubectl-lvms", "./cmd/kubectl-lvms", "${LDFLAGS}")}},
		"gather": {
			steps: []process{versioned("gather", "./must-gather", "${LDFLAGS}", fipsModule+"off")},
		},
		"console-packages": {steps: []process{{args: []string{"hack/console", "packages"}}}},
		"console": {
			needs: []string{"console-packages"},
			steps: []process{{args: []string{"hack/console", "build", "${CONSOLE_PARTS}"}}},
		},
		"console-plugin": {
			needs: []string{"console"},
			steps: []process{versioned("console-plugin", "./console-plugin", small, fipsModule+"off")},
		},
		"console-host": {
			needs: []string{"console-packages"},
			steps: []process{{args: []string{"hack/console", "host", "current"}}},
		},
		"console-host-earlier": {
			needs: []string{"console-packages"},
			steps: []process{{args: []string{"hack/console", "host"}}},
		},
		// The kubectl plugin for all platforms. An administrator's machine runs it, so it is not in an image.
		"cli": {steps: []process{{args: []string{"hack/cli", "${CACHE}/cli"},
			env: []string{"VERSION=${VERSION}", "LDFLAGS=${LDFLAGS}"}}}},
		"previous": {steps: []process{{args: []string{"hack/previous", previousCommit, "${LVMS_PREVIOUS}"}}}},
	}
	maps.Copy(all, images())
	maps.Copy(all, fipsImages())
	maps.Copy(all, releases())
	return all
}

// images are the images of a test cluster, and their files.
func images() map[string]artifact {
	return map[string]artifact{
		"rootfs": {needs: []string{"rootfs-tool"}, steps: []process{unpack("", "amd64", "${ROOTFS}")}},
		"image": {needs: []string{"lvms", "console-plugin", "rootfs", "image-tool"},
			steps: []process{operatorImage("amd64", "${BIN}/lvms", "${BIN}/console-plugin", "${IMAGE}")}},
		"gather-image": {needs: []string{"gather", "rootfs-tool", "image-tool"},
			steps: []process{
				unpack("must-gather", "amd64", "${GATHER_ROOTFS}"),
				gatherImage("amd64", "${BIN}/gather", "${LVMS_GATHER_IMAGE}"),
			}},
		// A fake of upstream's node agent, for the test that takes over a cluster from upstream.
		"upstream-image": {needs: []string{"rootfs", "image-tool", "topolvm"}, steps: []process{
			goBuild("upstream", "", "./test/upstream/agent"),
			writeImage("amd64", "${ROOTFS}", "${BIN}/upstream", "${LVMS_UPSTREAM_IMAGE}", "-title", "upstream",
				"-files", "${TOPOLVM_FILES}")}},
		"topolvm": topolvm(),
		"next-image": {needs: []string{"image"}, steps: []process{
			versioned("lvms-next", "./cmd/lvms", ldflags(nextVersion), fipsModule+"off"),
			operatorImage("amd64", "${BIN}/lvms-next", "${BIN}/console-plugin", "${LVMS_NEXT_IMAGE}", "-version",
				nextVersion)}},
		"topolvm-image": topolvmImage(),
		// The product with points at which a test freezes it.
		"freeze-image": {needs: []string{"console-plugin", "rootfs", "image-tool"}, steps: []process{
			{args: []string{"go", "run", "./test/freeze/overlay", "${CACHE}/freeze"}},
			goBuild("lvms-freeze", "", "./cmd/lvms", "-ldflags", "${LDFLAGS}", "-tags", "freeze", "-overlay",
				"${CACHE}/freeze/overlay.json").with(fipsModule + "off"),
			operatorImage("amd64", "${BIN}/lvms-freeze", "${BIN}/console-plugin", "${LVMS_FREEZE_IMAGE}")}},
	}
}

// unpack returns the step that unpacks Debian's packages for an architecture, as the first layer of an image.
func unpack(image, arch, out string) process {
	args := []string{
		"${BIN}/rootfs",
		"-arch",
		arch,
		"-update=${DEBIAN_UPDATE}",
		"-cache",
		"${CACHE}/debian",
		"-out",
		out,
	}
	if image != "" {
		args = append(args, "-image", image)
	}
	return process{args: args}
}

// writeImage returns the step that writes the archive of an image, with its list of components and its provenance.
func writeImage(arch, rootfs, binary, out string, more ...string) process {
	return process{
		args: append(
			[]string{"${BIN}/image", "-arch", arch, "-rootfs", rootfs, "-packages", rootfs + ".packages.json",
				"-binary", binary, "-version", "${VERSION}", "-revision", "${REVISION}", "-out", out},
			more...),
	}
}

func operatorImage(arch, binary, console, out string, more ...string) process {
	return writeImage(
		arch,
		rootfsOf("", arch),
		binary,
		out,
		append([]string{"-console", console, "-parts", "${CONSOLE_PARTS}"}, more...)...)
}

func gatherImage(arch, binary, out string) process {
	return writeImage(arch, rootfsOf("must-gather-", arch), binary, out, "-image", "must-gather")
}

func rootfsOf(image, arch string) string { return "${CACHE}/rootfs-" + image + arch }

// topolvm builds TopoLVM's programs and the sidecars of its chart, with the versions of their own module.
func topolvm() artifact {
	return artifact{steps: []process{
		{args: []string{"mkdir", "-p", "${TOPOLVM_FILES}/usr/bin"}},
		{dir: "hack/topolvm", args: []string{"go", "build", "-ldflags", small, "-o", "${TOPOLVM_FILES}/", "tool"}},
		{args: []string{"/bin/sh", "-euc", `cd "$TOPOLVM_FILES"
for name in lvmd topolvm-controller topolvm-node; do ln -sfn hypertopolvm "$name"; done`}},
	}}
}

// topolvmImage has TopoLVM and its sidecars at the paths of TopoLVM's own image, for the test that switches from its
// chart. A preStop hook of the chart needs a shell.
func topolvmImage() artifact {
	return artifact{needs: []string{"rootfs", "image-tool", "topolvm"}, steps: []process{
		{args: []string{"/bin/sh", "-euc", `cd "$TOPOLVM_FILES"
for name in csi-node-driver-registrar livenessprobe; do ln -sfn lvms "$name"; done
cp /usr/bin/busybox usr/bin/busybox
for name in sh rm; do ln -sfn busybox "usr/bin/$name"; done`}},
		goBuild("topolvm-sidecars", "", "./test/topolvm/sidecars", "-ldflags", small),
		writeImage("amd64", "${ROOTFS}", "${BIN}/topolvm-sidecars", "${LVMS_TOPOLVM_IMAGE}", "-title", "topolvm",
			"-files", "${TOPOLVM_FILES}", "-user", "0:0"),
	}}
}

// fipsImages are the images with the certified module, for the tests of FIPS mode.
func fipsImages() map[string]artifact {
	return map[string]artifact{"fips-images": {
		needs: []string{"console", "rootfs", "gather-image", "image-tool"},
		steps: slices.Concat(programsOf("amd64"), []process{
			operatorImage("amd64", "${BIN}/lvms-amd64", "${BIN}/console-plugin-amd64", "${IMAGE_FIPS}"),
			gatherImage("amd64", "${BIN}/gather-amd64", "${GATHER_IMAGE_FIPS}")}),
	}}
}

// architectures are those of the images.
var architectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// programsOf returns the steps that build the programs of the images of a release.
func programsOf(arch string) []process {
	env := []string{fipsModule + "certified", "GOARCH=" + arch}
	return []process{versioned("lvms-"+arch, "./cmd/lvms", "${LDFLAGS}", env...),
		versioned("console-plugin-"+arch, "./console-plugin", small, env...),
		versioned("gather-"+arch, "./must-gather", "${LDFLAGS}", env...)}
}

// releases are the images of a release.
func releases() map[string]artifact {
	operator := artifact{needs: []string{"console", "rootfs-tool", "image-tool"}}
	gather := artifact{needs: operator.needs}
	var operators, gathers []string
	for _, arch := range architectures {
		programs := programsOf(arch)
		name := func(image string) string { return fmt.Sprintf("${CACHE}/image/%s-%s.tar", image, arch) }
		operators, gathers = append(operators, name("lvms-operator")), append(gathers, name("lvms-must-gather"))
		operator.steps = append(operator.steps, programs[0], programs[1], unpack("", arch, rootfsOf("", arch)),
			operatorImage(arch, "${BIN}/lvms-"+arch, "${BIN}/console-plugin-"+arch, name("lvms-operator")))
		gather.steps = append(gather.steps, programs[2], unpack("must-gather", arch, rootfsOf("must-gather-", arch)),
			gatherImage(arch, "${BIN}/gather-"+arch, name("lvms-must-gather")))
	}
	index := func(image string, archives []string) process {
		return process{
			args: append(
				[]string{"${BIN}/image", "-index", "-out", "${CACHE}/image/" + image + "-index.tar"},
				archives...),
		}
	}
	operator.steps = append(operator.steps, index("lvms-operator", operators))
	gather.steps = append(gather.steps, index("lvms-must-gather", gathers))
	return map[string]artifact{"images": operator, "gather-images": gather}
}

// groupsOfPrograms are names for several sets of programs of the lab.
var groupsOfPrograms = map[string][]string{
	"cluster": {"kernel", "kubernetes", "containerd", "container", "snapshot-controller"},
}

// find returns the artifact with a name.
func find(name string) (artifact, error) {
	if set, isSet := strings.CutPrefix(name, "programs/"); isSet {
		return labPrograms(set), nil
	}
	if pkg, isTest := strings.CutPrefix(name, "bare/"); isTest {
		out := "${BARE}/" + strings.ReplaceAll(pkg, "/", "-") + ".test"
		return artifact{needs: []string{"lab"},
			steps: []process{
				{args: []string{"go", "test", "-vet=off", "-c", "-tags", "lab", "-o", out, "./" + pkg}},
			}}, nil
	}
	found, known := artifacts()[name]
	if !known {
		return found, fmt.Errorf("no artifact is named %q: run `dev build` for a list", name)
	}
	return found, nil
}

// labPrograms builds a set of programs of the lab. The directory of the API server becomes KUBEBUILDER_ASSETS.
func labPrograms(set string) artifact {
	sets := []string{set}
	if group, isGroup := groupsOfPrograms[set]; isGroup {
		sets = group
	}
	return artifact{needs: []string{"lab"}, then: func(ctx context.Context, w *workspace) error {
		out, err := w.output(ctx, append([]string{"${LAB}", "programs"}, sets...)...)
		if err != nil {
			return err
		}
		dirs := strings.Fields(out)
		if strings.HasPrefix(set, "kubernetes") {
			w.set("KUBEBUILDER_ASSETS", dirs[0])
		}
		if set == "opm" {
			w.set("OPM", filepath.Join(dirs[0], "opm"))
		}
		if set == "storage-tests" {
			w.set("LVMS_STORAGE_TESTS", dirs[0])
		}
		return nil
	}}
}

// build builds an artifact and what it needs, once in this process.
func (w *workspace) build(ctx context.Context, name string, out io.Writer) error {
	w.mutex.Lock()
	b := w.built[name]
	if b == nil {
		b = &building{}
		w.built[name] = b
	}
	w.mutex.Unlock()
	return b.once(ctx, func() error {
		if err := w.make(ctx, name, out); err != nil {
			return err
		}
		return w.markBuilt(name)
	})
}

// builtFile is the file whose existence says that an artifact was built on this machine at some time.
func (w *workspace) builtFile(name string) string {
	return filepath.Join(w.cache, "built", strings.ReplaceAll(name, "/", "_"))
}

func (w *workspace) markBuilt(name string) error {
	if err := os.MkdirAll(filepath.Join(w.cache, "built"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(w.builtFile(name), nil, 0o644)
}

// wasBuilt returns whether an artifact was built on this machine at some time, so that it is soon up to date.
func (w *workspace) wasBuilt(name string) bool {
	_, err := os.Stat(w.builtFile(name))
	return err == nil
}

func (w *workspace) make(ctx context.Context, name string, out io.Writer) error {
	a, err := find(name)
	if err != nil {
		return err
	}
	for _, need := range a.needs {
		if err := w.build(ctx, need, out); err != nil {
			return err
		}
	}
	begin := time.Now()
	for _, step := range a.steps {
		if err := w.run(ctx, step, out); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	if a.then != nil {
		if err := a.then(ctx, w); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		fmt.Printf("  built %s (%s)\n", name, clock(took))
	}
	return nil
}

// setRevision sets the commit in the provenance of images, which is empty if the working tree has changes.
func (w *workspace) setRevision(ctx context.Context) error {
	revision := os.Getenv("REVISION")
	if revision == "" {
		commit, err := w.commit(ctx)
		if err != nil {
			return err
		}
		revision = commit
	}
	w.set("REVISION", revision)
	return nil
}

func buildCommand(ctx context.Context, w *workspace, args []string) error {
	if len(args) == 0 {
		fmt.Println(strings.Join(slices.Sorted(maps.Keys(artifacts())), "\n"))
		return nil
	}
	if err := w.setRevision(ctx); err != nil {
		return err
	}
	for _, name := range args {
		if err := w.build(ctx, name, os.Stdout); err != nil {
			return err
		}
	}
	return nil
}
