/** What the console's editor begins with for an LVMCluster, where the form is not used. The namespace is that of the page. The form's own default is the same without disks. */
export const template = `apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata:
  name: my-lvmcluster
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: xfs
      # Name disks by stable paths. Without a deviceSelector, every unused disk of every node is used.
      deviceSelector:
        optionalPaths:
        - /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
      thinPoolConfig:
        name: thin-pool-1
        sizePercent: 90
        overprovisionRatio: 10
`;
