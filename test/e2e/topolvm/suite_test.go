//go:build e2e

// Package topolvm tests the switch from TopoLVM. Its chart is installed with Helm; controller, node service, lvmd,
// provisioner, resizer and snapshotter are TopoLVM's own programs. The commands are those of
// docs/how-to/switch-from-topolvm.md, and, for the earlier driver, of docs/how-to/migrate-earlier-topolvm.md.
package topolvm

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
)

// old is the namespace and, without -system, the release of TopoLVM.
const old = "topolvm-system"

var cluster suite.Cluster

func TestTopoLVM(t *testing.T) { suite.Run(t, "The switch from TopoLVM") }

func TestEachSpecIsInOneChapter(t *testing.T) { suite.Chapters(t, "chart", "earlier") }

var _ = Describe("The switch from TopoLVM's chart", func() {
	It("continues with the volumes of TopoLVM while a Pod writes, and can go back", Label("chart"), switches,
		NodeTimeout(50*time.Minute))

	It("serves the volumes of topolvm.cybozu.com while a Pod writes, and migrates them", Label("earlier"), migrates,
		NodeTimeout(50*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get all -n "+old, "get pods -n "+old+" -o yaml",
		"get csidriver,csinode,storageclass,csistoragecapacity -A -o yaml", "get nodes -o yaml",
		"logs -n "+old+" -l app.kubernetes.io/instance=topolvm --all-containers --prefix --tail=60")
}, NodeTimeout(4*time.Minute))
