package main

const (
	project     = "https://github.com/lvm-storage/lvm-operator"
	vendor      = "LVM Storage"
	maintainer  = "LVM Storage <lvm-storage@users.noreply.github.com>"
	displayName = "LVM Storage"
)

// product has the differences between our images.
type product struct {
	// program is the path of the binary without the first slash. It is the entry point.
	program                    string
	summary, description, tags string
}

const operatorImage = "operator"

var products = map[string]product{
	operatorImage: {"lvms", "Operator and node agent of LVM Storage",
		"Volumes of LVM on the disks of the cluster's nodes, with snapshots, clones, expansion and redundancy.",
		"storage,lvm,csi,operator"},
	"must-gather": {"usr/bin/gather", "Must-gather of LVM Storage",
		"Collects what support needs to know of LVM Storage, and says what is wrong, for oc adm must-gather.",
		"storage,lvm,must-gather"},
}

// labels returns the labels that the certification of container images requires, and those that registries show. The
// Containerfile has the same labels; a test compares them.
func labels(of product, title, version, release string) map[string]string {
	return map[string]string{
		"name":                                 title,
		"vendor":                               vendor,
		"version":                              version,
		"release":                              release,
		"summary":                              of.summary,
		"description":                          of.description,
		"maintainer":                           maintainer,
		"io.k8s.display-name":                  displayName,
		"io.k8s.description":                   of.description,
		"io.openshift.tags":                    of.tags,
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      project,
		"org.opencontainers.image.description": of.description,
		"org.opencontainers.image.vendor":      vendor,
	}
}
