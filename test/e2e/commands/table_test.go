package commands

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/cite"
)

func read(t *testing.T) []Command {
	t.Helper()
	all, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("%d commands: the pages have more", len(all))
	}
	return all
}

// Every command is run by this test, or has a reason why it is not.
func TestEachCommandHasItsTest(t *testing.T) {
	used := map[string]bool{}
	for _, c := range read(t) {
		used[c.Text] = true
		places := 0
		for _, is := range []bool{c.ReadsOnly() && !listed(c), stepOf(c) != nil, pageListed(c.Page),
			elsewhere[c.Text][0] != "", notRun[c.Text] != ""} {
			if is {
				places++
			}
		}
		if places != 1 {
			t.Errorf(
				"%s: in %d of the tables, want one of steps, elsewhere and notRun (test/e2e/commands/table.go): %s",
				c.Page, places, c.Text)
		}
	}
	for _, s := range steps {
		stale(t, used, s.Text)
	}
	for text := range elsewhere {
		stale(t, used, text)
	}
	for text := range notRun {
		stale(t, used, text)
	}
	for text := range refused {
		stale(t, used, text)
	}
}

func stale(t *testing.T, used map[string]bool, text string) {
	t.Helper()
	if !used[text] {
		t.Errorf("no page has the command: %s", text)
	}
}

// The named tests exist.
func TestTestsThatAreNamedExist(t *testing.T) {
	check := func(what string, place [2]string) {
		if err := cite.Find(place[0], place[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for page, place := range pagesElsewhere {
		check(page, place)
	}
	for text, place := range elsewhere {
		check(text, place)
	}
}

func TestCommandsOfAPage(t *testing.T) {
	page := "# Page\n\n```sh\nNODE=worker-1 CLASS=vg1\nkubectl get node $NODE\n```\n\n1. Do:\n\n   ```sh\n   kubectl " +
		"delete pod POD\n   ```\n\n" +
		"Or:\n\n    kubectl kustomize config |\n      kubectl apply -f -\n    oc get pods      # all of " +
		"them\n\n```yaml\nkubectl: no\n```\n"
	got := commandsOf("p.md", page)
	var texts []string
	for _, c := range got {
		texts = append(texts, c.Text)
	}
	const want = "kubectl get node $NODE;kubectl delete pod POD;kubectl kustomize config | kubectl apply " +
		"-f -;oc get pods"
	if strings.Join(texts, ";") != want || len(got[0].Before) != 1 {
		t.Errorf("got %q, %q, want %q", texts, got[0].Before, want)
	}
}

func TestReadsOnly(t *testing.T) {
	for text, want := range map[string]bool{
		"kubectl get pods -A": true,
		"kubectl -n openshift-lvm-storage rollout status deployment/x":                                        true,
		"kubectl -n openshift-lvm-storage rollout restart deployment/x":                                       false,
		"kubectl get x -o yaml > file":                                                                        false,
		"kubectl get x -o name | xargs kubectl delete":                                                        false,
		"kubectl -n openshift-lvm-storage exec $AGENT -- nsenter -t 1 -m -u -i -n -- lvs -a":                  true,
		"kubectl -n openshift-lvm-storage exec $AGENT -- nsenter -t 1 -m -u -i -n -- timeout 60 lvs -a":       true,
		"kubectl -n openshift-lvm-storage exec $AGENT -- nsenter -t 1 -m -u -i -n -- lvsx":                    false,
		"kubectl -n openshift-lvm-storage exec $AGENT -- nsenter -t 1 -m -u -i -n -- dmsetup resume x":        false,
		"kubectl -n openshift-lvm-storage exec $AGENT -- nsenter -t 1 -m -u -i -n -- systemctl restart udevd": false,
		"kubectl -n openshift-lvm-storage exec $AGENT -- nsenter -t 1 -m -u -i -n -- systemctl status udevd":  true,
		"kubectl delete pod x": false, "oc get pods": false,
	} {
		if got := (Command{Text: text}).ReadsOnly(); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}
