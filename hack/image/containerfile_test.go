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

// instruction is a line of the Containerfile, joined where it is continued.
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

// of returns what follows the instructions of that name in a stage.
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

// TestContainerfileMakesTheSameImage compares by text: what builds Containerfiles is not there where tests run.
func TestContainerfileMakesTheSameImage(t *testing.T) {
	file := readContainerfile(t)
	image, err := build(withTextProgram(t, newFolder(t)))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("${VERSION}", "1.2.3", "${RELEASE}", "1")
	got := map[string]string{}
	for _, line := range of(file, "operator", "LABEL") {
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			got[match[1]] = values.Replace(match[2])
		}
	}
	if want := config.Config.Labels; !maps.Equal(got, want) {
		t.Errorf("labels %v\nhack/image has %v", got, want)
	}
	if got := of(file, "operator", "USER"); !slices.Equal(got, []string{config.Config.User}) {
		t.Errorf("user %q, hack/image has %q", got, config.Config.User)
	}
	if got := of(file, "operator", "ENV"); !slices.Equal(got, config.Config.Env) {
		t.Errorf("environment %q, hack/image has %q", got, config.Config.Env)
	}
	entrypoint, err := json.Marshal(config.Config.Entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	if got := of(file, "operator", "ENTRYPOINT"); !slices.Equal(got, []string{string(entrypoint)}) {
		t.Errorf("entry point %q, hack/image has %s", got, entrypoint)
	}
}

// The list of programs is in hack/rootfs: who runs it, and installs nothing else, has the same ones.
func TestContainerfileAndMakefileTakeFilesFromTheSameProgram(t *testing.T) {
	file := readContainerfile(t)
	if got := of(file, "rootfs", "RUN"); len(got) != 1 || !strings.HasPrefix(got[0], "/tools/rootfs -arch ${TARGETARCH} ") || !strings.HasSuffix(got[0], " -out /rootfs") {
		t.Errorf("the stage rootfs runs %q, and not hack/rootfs alone", got)
	}
	if got := of(file, "build", "RUN"); !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "-o /tools/rootfs ./hack/rootfs") }) {
		t.Errorf("the stage build does not build hack/rootfs: %q", got)
	}
	if got := of(file, "console", "RUN"); !slices.Equal(got, []string{"hack/console build /console"}) {
		t.Errorf("the stage console runs %q, and not hack/console alone", got)
	}
	if got := of(file, "build", "COPY"); got[len(got)-1] != "--from=console /src/console-plugin/dist console-plugin/dist" {
		t.Errorf("the server of the plugin is built without the plugin: %q", got)
	}
	want := []string{"--from=rootfs /rootfs /", "--from=build /lvms /lvms", "--from=build /console-plugin /console-plugin", "--from=console /console/licenses /licenses/npm"}
	if got := of(file, "operator", "COPY"); !slices.Equal(got, want) {
		t.Errorf("the image has %q, want %q", got, want)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rootfs = $(BIN)/rootfs ", "go build -o $@ ./hack/rootfs\n", "hack/console build $(CONSOLE_PARTS)\n"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile has no %q", want)
		}
	}
}

// Stages see an argument only where they declare it.
func TestContainerfileDeclaresWhatItUses(t *testing.T) {
	file := readContainerfile(t)
	variable := regexp.MustCompile(`\$\{(\w+)\}`)
	for _, i := range file {
		declared := of(file, i.stage, "ARG")
		if i.name == "FROM" {
			declared = append(of(file, "", "ARG"), "BUILDPLATFORM")
		}
		for _, use := range variable.FindAllStringSubmatch(i.rest, -1) {
			if !slices.ContainsFunc(declared, func(arg string) bool { name, _, _ := strings.Cut(arg, "="); return name == use[1] }) {
				t.Errorf("%s in stage %s uses %s, which is not declared there", i.name, i.stage, use[1])
			}
		}
	}
}
