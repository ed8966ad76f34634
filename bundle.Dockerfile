# The image of the bundle, whose labels are the annotations in bundle/metadata/annotations.yaml:
#   podman build -f bundle.Dockerfile -t quay.io/lvm-storage/lvms-operator-bundle:vX.Y.Z .
FROM scratch
LABEL com.redhat.openshift.versions=v4.17
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=lvms-operator
LABEL operators.operatorframework.io.bundle.channels.v1=stable-0.2,candidate
LABEL operators.operatorframework.io.bundle.channel.default.v1=stable-0.2
LABEL operators.operatorframework.io.test.mediatype.v1=scorecard+v1
LABEL operators.operatorframework.io.test.config.v1=tests/scorecard/
COPY bundle/manifests /manifests/
COPY bundle/metadata /metadata/
COPY bundle/tests/scorecard /tests/scorecard/
