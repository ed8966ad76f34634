// Package story has the steps of a user on a lab's cluster: install the operator, request storage, use it, and inspect
// it. The demo and the end-to-end tests consist of these steps.
package story

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

// OperatorNamespace is the namespace in which config/default installs the operator.
const OperatorNamespace = "openshift-lvm-storage"

// Cluster is a lab's cluster as a user sees it.
type Cluster struct {
	client.Client
	Clientset kubernetes.Interface
	Lab       *lab.Lab
	// Namespace is where the operator is installed. The default is OperatorNamespace.
	Namespace string
	// User is the user that acts, with the permissions of the user's RBAC. The default is the administrator.
	User string
}

// InstallNamespace returns the namespace in which the operator is installed.
func (c *Cluster) InstallNamespace() string { return cmp.Or(c.Namespace, OperatorNamespace) }

// Open returns access to the cluster of a lab.
func Open(l *lab.Lab) (*Cluster, error) {
	config, err := l.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, lvmv1alpha1.AddToScheme, topolvmv1.AddToScheme, snapshotv1.AddToScheme,
		apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return connect(l, config, scheme)
}

func connect(l *lab.Lab, config *rest.Config, scheme *runtime.Scheme) (*Cluster, error) {
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: c, Clientset: clientset, Lab: l, User: config.Impersonate.UserName}, nil
}

// As returns access to the cluster as another user, who has the permissions that RBAC grants.
func (c *Cluster) As(user string) (*Cluster, error) {
	config, err := c.Lab.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.Impersonate.UserName = user
	as, err := connect(c.Lab, config, c.Scheme())
	if err != nil {
		return nil, err
	}
	as.Namespace = c.Namespace
	return as, nil
}

// Kubectl runs kubectl as the user of the cluster and returns what it prints. stdin may be nil.
func (c *Cluster) Kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	if c.User != "" {
		args = append([]string{"--as=" + c.User}, args...)
	}
	command, err := c.Lab.Command(ctx, "kubectl", args...)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	command.Stdin = stdin
	command.Stdout = &stdout
	command.Stderr = &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Install pushes the operator's image to the lab's registry, and installs it as `make deploy` does.
func (c *Cluster) Install(ctx context.Context, archive string) error {
	return c.InstallFrom(ctx, "config/default", archive)
}

// InstallFrom installs another kustomization than config/default: `make deploy CONFIG=...`.
func (c *Cluster) InstallFrom(ctx context.Context, config, archive string) error {
	image, err := c.push(ctx, archive)
	if err != nil {
		return err
	}
	command, err := c.script(ctx, "deploy", config, image)
	if err != nil {
		return err
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("hack/deploy: %w\n%s", err, out)
	}
	return nil
}

// push pushes the operator's image to the lab's registry, and returns its name there.
func (c *Cluster) push(ctx context.Context, archive string) (string, error) {
	image, err := c.Lab.LoadImage(ctx, archive, c.Lab.Registry()+"/lvms-operator:dev")
	if err != nil {
		return "", fmt.Errorf("push %s: %w", archive, err)
	}
	return image, nil
}

// Undeploy removes the operator like `make undeploy`. It returns what hack/undeploy prints.
func (c *Cluster) Undeploy(ctx context.Context) (string, error) {
	command, err := c.script(ctx, "undeploy", "config/default")
	if err != nil {
		return "", err
	}
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("hack/undeploy: %w\n%s", err, out)
	}
	return string(out), err
}

// script returns a command for a script of the folder hack that uses kubectl.
func (c *Cluster) script(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	cache, err := lab.CacheDir()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, filepath.Join(root, "hack", name), args...)
	command.Env = append(os.Environ(), "KUBECTL="+filepath.Join(cache, "bin", "lab")+" kubectl --state "+
		c.Lab.State()+" --", "NAMESPACE="+c.InstallNamespace())
	return command, nil
}

// Uninstall deletes what Install applied and waits until it no longer exists.
func (c *Cluster) Uninstall(ctx context.Context, archive string) error {
	manifests, err := c.manifests(ctx, archive)
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, strings.NewReader(manifests), "delete", "--ignore-not-found", "--wait",
		Timeout, "-f", "-")
	return err
}

// manifests pushes the image, and returns config/default with the image's name in the lab's registry.
func (c *Cluster) manifests(ctx context.Context, archive string) (string, error) {
	image, err := c.push(ctx, archive)
	if err != nil {
		return "", err
	}
	root, err := lab.Root()
	if err != nil {
		return "", err
	}
	rendered, err := c.Kubectl(ctx, nil, "kustomize", filepath.Join(root, "config", "default"))
	if err != nil {
		return "", err
	}
	const placeholder = "image: lvms-operator:latest"
	if !strings.Contains(rendered, placeholder) {
		return "", errors.New("config/default has no " + placeholder)
	}
	replacer := strings.NewReplacer(placeholder, "image: "+image, OperatorNamespace, c.InstallNamespace())
	return replacer.Replace(rendered), nil
}

// ApplyManifest applies a manifest and returns the error of kubectl, as an administrator sees it.
func (c *Cluster) ApplyManifest(ctx context.Context, manifest string) error {
	_, err := c.Kubectl(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}

// ApplyFile applies a manifest of the repository.
func (c *Cluster) ApplyFile(ctx context.Context, path string) error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, nil, "apply", "-f", filepath.Join(root, path))
	return err
}

// LimitCopies sets the bandwidth limit of copies of the LVMCluster my-lvmcluster, or removes it if it is "", and waits
// until all device classes have it. It repeats a request that is refused, because the operator may be starting.
func (c *Cluster) LimitCopies(ctx context.Context, bandwidth string) error {
	value := "null"
	if bandwidth != "" {
		value = fmt.Sprintf(`{"bandwidthLimit":%q}`, bandwidth)
	}
	return Wait(ctx, "the bandwidth limit of copies", func(ctx context.Context) (bool, string, error) {
		if _, err := c.Kubectl(ctx, nil, "patch", "lvmcluster", "-n", OperatorNamespace, "my-lvmcluster",
			"--type=merge", "-p", `{"spec":{"volumeCopy":`+value+`}}`); err != nil {
			return false, err.Error(), nil
		}
		limits, err := c.Kubectl(ctx, nil, "get", "lvmvolumegroups", "-n", OperatorNamespace, "-o",
			`jsonpath={range .items[*]}[{.spec.volumeCopy.bandwidthLimit}]{end}`)
		return strings.ReplaceAll(limits, "["+bandwidth+"]", "") == "", limits, err
	})
}

// Wait calls check every half second until it returns true or ctx ends. The error contains the last result of check.
func Wait(ctx context.Context, what string, check func(context.Context) (done bool, seen string, err error)) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	last := "nothing"
	for {
		done, seen, err := check(ctx)
		if done && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			seen = err.Error()
		}
		if seen != "" {
			last = seen
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last seen: %s", what, ctx.Err(), last)
		case <-ticker.C:
		}
	}
}

// WaitReady waits until the LVMCluster is Ready for its current generation.
func (c *Cluster) WaitReady(ctx context.Context, name string) error {
	return Wait(ctx, "LVMCluster "+name+" Ready", func(ctx context.Context) (bool, string, error) {
		var cluster lvmv1alpha1.LVMCluster
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.InstallNamespace(), Name: name}, &cluster); err != nil {
			return false, "", err
		}
		status := cluster.Status
		seen := string(status.State)
		for _, condition := range status.Conditions {
			seen += fmt.Sprintf("; %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
		return status.Ready && status.ObservedGeneration == cluster.Generation, seen, nil
	})
}

// Shell runs a shell line in a pod.
func (c *Cluster) Shell(ctx context.Context, namespace, pod, line string) (string, error) {
	return c.Kubectl(ctx, nil, "exec", "-n", namespace, pod, "--", "/bin/sh", "-c", line)
}
