package consoleplugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The paths of the builds of the plugin on its server, console-plugin. A test compares them with the server.
const (
	// currentPath is the path of the build for the console of OpenShift 4.22 and later, which shares React 18.
	currentPath = "/"
	// legacyPath is the path of the build for the consoles of OpenShift 4.19 to 4.21, which share React 17.
	legacyPath = "/legacy/"
)

// firstCurrent is the version of OpenShift from which the console loads the build at currentPath.
var firstCurrent = version.MajorMinor(4, 22)

const (
	// versionName is the name of the only ClusterVersion.
	versionName = "version"
	// versionInterval is the interval at which Reconcile reads the version of the cluster.
	versionInterval = 5 * time.Minute
)

// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions,resourceNames=version,verbs=get

// basePath returns the path of the build for the console of the cluster. If the version of the cluster cannot be read,
// it returns the path that the ConsolePlugin has, and the error; the path is empty if there is no ConsolePlugin, or it
// cannot be read either. A cluster without a ClusterVersion is not OpenShift, and has the current build.
func (c *Controller) basePath(ctx context.Context) (string, error) {
	cluster := &configv1.ClusterVersion{}
	err := c.live.Get(ctx, client.ObjectKey{Name: versionName}, cluster)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return currentPath, nil
	}
	if err == nil {
		openShift := consoleVersion(cluster)
		if openShift == "" {
			return c.pathWithoutVersion(ctx)
		}
		var path string
		if path, err = pathFor(openShift); err == nil {
			return path, nil
		}
	}
	err = fmt.Errorf("read the version of OpenShift from ClusterVersion %s, which decides which build of the plugin "+
		"ConsolePlugin %s offers: %w", versionName, PluginName, err)
	path, keepErr := c.presentPath(ctx)
	return path, errors.Join(err, keepErr)
}

// pathWithoutVersion returns the path while the ClusterVersion has no version yet: the one that the ConsolePlugin has,
// and that of the current build for a new ConsolePlugin.
func (c *Controller) pathWithoutVersion(ctx context.Context) (string, error) {
	path, err := c.presentPath(ctx)
	if path == "" && err == nil {
		return currentPath, nil
	}
	return path, err
}

// presentPath returns the path that the ConsolePlugin has, or "" if there is no ConsolePlugin.
func (c *Controller) presentPath(ctx context.Context) (string, error) {
	plugin := &consolev1.ConsolePlugin{}
	err := c.live.Get(ctx, client.ObjectKey{Name: PluginName}, plugin)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read ConsolePlugin %s: %w", PluginName, err)
	}
	if plugin.Spec.Backend.Service == nil {
		return "", nil
	}
	return plugin.Spec.Backend.Service.BasePath, nil
}

// consoleVersion returns the version of OpenShift that the cluster has: that of its last complete installation or
// upgrade, or during the installation the one that is being installed. An upgrade replaces the console in its course;
// until it is complete, the console of the new version does not load the build for the previous one.
func consoleVersion(cluster *configv1.ClusterVersion) string {
	for _, update := range cluster.Status.History {
		if update.State == configv1.CompletedUpdate {
			return update.Version
		}
	}
	return cluster.Status.Desired.Version
}

// pathFor returns the path of the build for a version of OpenShift. Prerelease versions count as their release.
func pathFor(openShift string) (string, error) {
	parsed, err := version.ParseSemantic(openShift)
	if err != nil {
		return "", fmt.Errorf("invalid version %q: %w", openShift, err)
	}
	if version.MajorMinor(parsed.Major(), parsed.Minor()).LessThan(firstCurrent) {
		return legacyPath, nil
	}
	return currentPath, nil
}
