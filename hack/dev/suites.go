package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/env/envtests"
)

// steps runs processes one after another, and prints what each does.
func (w *workspace) steps(ctx context.Context, all ...process) error {
	for _, p := range all {
		if err := w.run(ctx, p, os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

const consoleDir = "console-plugin/web"

func npm(args ...string) process {
	return process{dir: consoleDir, args: append([]string{"npm", "run", "--silent"}, args...)}
}

// consoleCommand tests the console plugin without a browser.
func consoleCommand(ctx context.Context, w *workspace, _ []string) error {
	if err := w.build(ctx, "console", os.Stdout); err != nil {
		return err
	}
	return w.steps(ctx, npm("test"), npm("budget"), npm("licenses"))
}

// earlierNamespace is the namespace of the operator on earlier versions of OpenShift.
const earlierNamespace = "openshift-storage"

// browserCommand runs a group of browser tests of the console plugin on an API server with the product's admission.
func browserCommand(ctx context.Context, w *workspace, args []string) error {
	if len(args) != 1 {
		return errors.New("browser needs a group or a story of browser tests")
	}
	var flags []string
	if args[0] == "earlier" {
		flags = []string{"--namespace", earlierNamespace}
	}
	return w.withBridge(ctx, flags, "npm", "run", "--silent", "browser", "--", args[0])
}

// picturesCommand takes the screenshots of the console in docs/images.
func picturesCommand(ctx context.Context, w *workspace, _ []string) error {
	return w.withBridge(ctx, nil, "node", "--import", "tsx", "browser/pictures.ts", "${ROOT}/docs/images")
}

// withBridge runs a command that opens pages of the console plugin.
func (w *workspace) withBridge(ctx context.Context, flags []string, command ...string) error {
	for _, need := range []string{"bridge", "console-plugin", "console-host", "programs/kubernetes"} {
		if err := w.build(ctx, need, os.Stdout); err != nil {
			return err
		}
	}
	args := []string{"${BIN}/bridge", "--plugin", "${BIN}/console-plugin", "--host", "host/dist",
		"--rules", "${ROOT}/monitoring/tests/rules.yaml"}
	return w.steps(ctx, process{dir: consoleDir, args: slices.Concat(args, flags, command)})
}

// verifyCommand fails if a generated file is stale.
func verifyCommand(ctx context.Context, w *workspace, _ []string) error {
	for _, need := range []string{"controller-gen", "bundle", "catalog", "chart", "programs/opm"} {
		if err := w.build(ctx, need, os.Stdout); err != nil {
			return err
		}
	}
	images := []string{"-version", "${VERSION}", "-image", "${BUNDLE_IMAGE}"}
	// unchanged returns the process that runs a command, unless it has passed with the same arguments and files.
	unchanged := func(name, files string, command ...string) process {
		args := append([]string{"hack/unchanged", name}, strings.Fields(files)...)
		return process{args: slices.Concat(args, []string{"--"}, command)}
	}
	return w.steps(
		ctx,
		unchanged(
			"generated",
			"*.go *go.mod *go.sum config bundle monitoring console-plugin/web/src hack",
			append([]string{"hack/verify",
				"${BIN}/controller-gen", "${BIN}/bundle"}, append(images, "-must-gather-image",
				"${GATHER_NAME}", "-fips-module", "${BUNDLE_FIPS_MODULE}")...)...),
		unchanged(
			"catalog",
			"bundle catalog hack",
			"hack/verify-catalog",
			"${BIN}/catalog",
			"-opm",
			"${OPM}",
			"-bundle",
			"bundle",
			"-image",
			"${CATALOG_BUNDLE}",
		),
		unchanged(
			"bundle-tests",
			"bundle catalog config hack",
			"go",
			"test",
			"-C",
			"hack/bundle",
			"-vet=off",
			"-count=1",
			"./...",
		),
		unchanged(
			"chart",
			"charts config monitoring docs/reference/helm.md hack",
			append([]string{"hack/verify-chart", "${BIN}/chart"}, images...)...),
		unchanged(
			"chart-tests",
			"charts config monitoring hack",
			"go",
			"test",
			"-C",
			"hack/chart",
			"-vet=off",
			"-count=1",
			"./...",
		),
	)
}

// envCommand runs the tests that need an API server, or those that kill the operator at each of its requests to it.
// Tests that run in parallel mostly wait for the API server, so more of them run than there are processors. As with
// unit tests, packages for which nothing has changed are not run again.
func envCommand(ctx context.Context, w *workspace, flags []string) error {
	args := envtests.Args
	if len(flags) > 0 && flags[0] == "kills" {
		args, flags = envtests.KillArgs, flags[1:]
	}
	selected, err := args(w.root)
	if err != nil {
		return err
	}
	test := append([]string{"go", "test", "-vet=off", "-p", "1", "-parallel", "8"}, flags...)
	p := process{args: append(test, selected...)}
	if slices.Contains(flags, "-race") {
		p.env = []string{"CGO_ENABLED=1"} // The race detector needs it, and the workspace has it off.
	}
	return w.steps(ctx, p)
}
