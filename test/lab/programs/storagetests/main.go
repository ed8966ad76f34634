// Storagetests runs Kubernetes' own end-to-end tests of storage drivers, without those of other parts of Kubernetes.
// Its flags are those of Kubernetes' program e2e.test. The file of -storage.testdriver describes the driver.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	testingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/utils/image"

	// These set up the framework.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/format"

	// These are the tests.
	_ "k8s.io/kubernetes/test/e2e/storage/external"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "storagetests:", err)
		os.Exit(1)
	}
}

func run() error {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown arguments: %q", flag.Args())
	}
	if framework.TestContext.ListImages {
		for _, c := range image.GetImageConfigs() {
			fmt.Println(c.GetE2EImage())
		}
		return nil
	}
	testfiles.AddFileSource(testingmanifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	logs.InitLogs()
	defer logs.FlushLogs()
	klog.EnableContextualLogging(true)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	var t outcome
	ginkgo.RunSpecs(&t, "Kubernetes storage", suite, reporter)
	if t.failed {
		return errors.New("a test has failed")
	}
	return nil
}

// outcome receives from Ginkgo that the tests have failed, as a testing.T does.
type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }
