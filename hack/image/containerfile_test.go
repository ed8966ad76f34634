package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is a line of the Containerfile, joined with its continuation lines.
type instruction struct {
	stage, name, rest string
}

func readContainerfile(t *testing.T) []instruction {
	t.Helper()
	content, err := os.ReadFile("../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	var found []instruction
	stage := ""
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", " ")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if _, as, named := strings.Cut(rest, " AS "); name == "FROM" && named {
			stage = as
		}
		found = append(found, instruction{stage, name, strings.TrimSpace(rest)})
	}
	return found
}

// of returns the arguments of all instructions of a name in a stage.
func of(all []instruction, stage, name string) []string {
	var found []string
	for _, i := range all {
		if i.stage == stage && i.name == name {
			found = append(found, i.rest)
		}
	}
	return found
}

var quoted = regexp.MustCompile(`(\S+?)="([^"]*)"`)

// TestContainerfileMakesTheSameImage compares texts, because tests cannot build a Containerfile. A stage has the name
// of the image.
func TestContainerfileMakesTheSameImage(t *testing.T) {
	for stage := range products {
		t.Run(stage, func(t *testing.T) { sameImage(t, stage) })
	}
}

func sameImage(t *testing.T, stage string) {
	file := readContainerfile(t)
	o := withTextProgram(t, newFolder(t))
	o.image = stage
	o.title = "lvms-" + stage
	o.console = ""
	o.parts = ""
	image, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("${VERSION}", "1.2.3", "${RELEASE}", "1")
	got := map[string]string{}
	for _, line := range of(file, stage, "LABEL") {
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			got[match[1]] = values.Replace(match[2])
		}
	}
	if want := config.Config.Labels; !maps.Equal(got, want) {
		t.Errorf("labels %v\nhack/image has %v", got, want)
	}
	if got := of(file, stage, "USER"); !slices.Equal(got, []string{config.Config.User}) {
		t.Errorf("user %q, hack/image has %q", got, config.Config.User)
	}
	if got := of(file, stage, "ENV"); !slices.Equal(got, config.Config.Env) {
		t.Errorf("environment %q, hack/image has %q", got, config.Config.Env)
	}
	entrypoint, err := json.Marshal(config.Config.Entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	if got := of(file, stage, "ENTRYPOINT"); !slices.Equal(got, []string{string(entrypoint)}) {
		t.Errorf("entry point %q, hack/image has %s", got, entrypoint)
	}
}

// The list of programs is in hack/rootfs. Both builds run it and add no other programs.
func TestContainerfileAndDevTakeFilesFromTheSameProgram(t *testing.T) {
	file := readContainerfile(t)
	for stage, want := range map[string]string{"rootfs": "/tools/rootfs -arch ${TARGETARCH} ",
		"must-gather-rootfs": "/tools/rootfs -image must-gather -arch ${TARGETARCH} "} {
		if got := of(file, stage, "RUN"); len(got) != 1 || !strings.HasPrefix(got[0], want) ||
			!strings.HasSuffix(got[0], " -out /rootfs") {
			t.Errorf("the stage %s runs %q, and not hack/rootfs alone", stage, got)
		}
	}
	if got, want := of(file, "must-gather", "COPY"),
		[]string{"--from=must-gather-rootfs /rootfs /",
			"--from=build /gather /usr/bin/gather"}; !slices.Equal(got, want) {
		t.Errorf("the image of must-gather has %q, want %q", got, want)
	}
	if got := of(file, "build", "RUN"); !slices.ContainsFunc(got,
		func(s string) bool { return strings.HasSuffix(s, "-o /tools/rootfs ./hack/rootfs") }) {
		t.Errorf("the stage build does not build hack/rootfs: %q", got)
	}
	if got := of(file, "console", "RUN"); !slices.Equal(got, []string{"hack/console build /console"}) {
		t.Errorf("the stage console runs %q, and not hack/console alone", got)
	}
	if got, want := of(file, "console", "COPY"),
		[]string{"hack hack", "console-plugin console-plugin",
			"monitoring/runbooks monitoring/runbooks"}; !slices.Equal(got, want) {
		t.Errorf("the plugin is built from %q, want %q", got, want)
	}
	if got := of(file, "build", "COPY"); got[len(got)-1] !=
		"--from=console /src/console-plugin/dist console-plugin/dist" {
		t.Errorf("the server of the plugin is built without the plugin: %q", got)
	}
	want := []string{"--from=rootfs /rootfs /", "--from=build /lvms /lvms",
		"--from=build /console-plugin /console-plugin", "--from=console /console/licenses /licenses/npm"}
	if got := of(file, "operator", "COPY"); !slices.Equal(got, want) {
		t.Errorf("the image has %q, want %q", got, want)
	}
	dev, err := os.ReadFile("../dev/artifacts.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"${BIN}/rootfs", "-arch", arch`, `program("rootfs", "", "./hack/rootfs")`,
		`"hack/console", "build", "${CONSOLE_PARTS}"`} {
		if !strings.Contains(strings.Join(strings.Fields(string(dev)), " "), want) {
			t.Errorf("hack/dev has no %q", want)
		}
	}
}

// A stage has only the arguments that it declares.
func TestContainerfileDeclaresWhatItUses(t *testing.T) {
	file := readContainerfile(t)
	variable := regexp.MustCompile(`\$\{(\w+)\}`)
	for _, i := range file {
		declared := of(file, i.stage, "ARG")
		if i.name == "FROM" {
			declared = append(of(file, "", "ARG"), "BUILDPLATFORM")
		}
		for _, use := range variable.FindAllStringSubmatch(i.rest, -1) {
			if !slices.ContainsFunc(declared, func(arg string) bool {
				name, _, _ := strings.Cut(arg,
					"=")
				return name == use[1]
			}) {
				t.Errorf("%s in stage %s uses %s, which is not declared there", i.name, i.stage, use[1])
			}
		}
	}
}
