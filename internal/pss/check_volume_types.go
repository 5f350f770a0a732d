package pss

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

var volumeTypes = &control{
	name: "Volume Types", ids: []string{"restrictedVolumes"}, level: LevelRestricted, images: imagesForbidden,
	doc:      "A pod must mount only volumes of the types that need no rights on the node.",
	examples: []string{"spec.volumes[*].nfs"},
	locate: func(_ string, f *finder) {
		for i := range f.spec.Volumes {
			v := &f.spec.Volumes[i]
			if !f.forbids(corev1.PodSpec{Volumes: []corev1.Volume{*v}}) {
				continue
			}
			field := "volumes[" + strconv.Itoa(i) + "]"
			if name := sourceOf(v); name != "" {
				field += "." + name
			}
			f.forbid(containerRef{}, field, nil)
		}
	},
}

// sourceOf returns the field that holds the volume's source; empty if it has none. It does not distinguish the sources that
// every version allows from no source.
func sourceOf(v *corev1.Volume) string {
	for _, s := range volumeSources {
		if s.has(v) {
			return s.field
		}
	}
	return ""
}

// volumeSources are the restricted sources, each with a function that sets it without reading its content.
var volumeSources = []struct {
	field string
	has   func(*corev1.Volume) bool
	set   func(*corev1.Volume)
}{
	{"hostPath", func(v *corev1.Volume) bool { return v.HostPath != nil }, nil},
	{"gcePersistentDisk", func(v *corev1.Volume) bool { return v.GCEPersistentDisk != nil },
		func(v *corev1.Volume) { v.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{} }},
	{"awsElasticBlockStore", func(v *corev1.Volume) bool { return v.AWSElasticBlockStore != nil },
		func(v *corev1.Volume) { v.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{} }},
	{"gitRepo", func(v *corev1.Volume) bool { return v.GitRepo != nil },
		func(v *corev1.Volume) { v.GitRepo = &corev1.GitRepoVolumeSource{} }},
	{"nfs", func(v *corev1.Volume) bool { return v.NFS != nil },
		func(v *corev1.Volume) { v.NFS = &corev1.NFSVolumeSource{} }},
	{"iscsi", func(v *corev1.Volume) bool { return v.ISCSI != nil },
		func(v *corev1.Volume) { v.ISCSI = &corev1.ISCSIVolumeSource{} }},
	{"glusterfs", func(v *corev1.Volume) bool { return v.Glusterfs != nil },
		func(v *corev1.Volume) { v.Glusterfs = &corev1.GlusterfsVolumeSource{} }},
	{"rbd", func(v *corev1.Volume) bool { return v.RBD != nil },
		func(v *corev1.Volume) { v.RBD = &corev1.RBDVolumeSource{} }},
	{"flexVolume", func(v *corev1.Volume) bool { return v.FlexVolume != nil },
		func(v *corev1.Volume) { v.FlexVolume = &corev1.FlexVolumeSource{} }},
	{"cinder", func(v *corev1.Volume) bool { return v.Cinder != nil },
		func(v *corev1.Volume) { v.Cinder = &corev1.CinderVolumeSource{} }},
	{"cephfs", func(v *corev1.Volume) bool { return v.CephFS != nil },
		func(v *corev1.Volume) { v.CephFS = &corev1.CephFSVolumeSource{} }},
	{"flocker", func(v *corev1.Volume) bool { return v.Flocker != nil },
		func(v *corev1.Volume) { v.Flocker = &corev1.FlockerVolumeSource{} }},
	{"fc", func(v *corev1.Volume) bool { return v.FC != nil },
		func(v *corev1.Volume) { v.FC = &corev1.FCVolumeSource{} }},
	{"azureFile", func(v *corev1.Volume) bool { return v.AzureFile != nil },
		func(v *corev1.Volume) { v.AzureFile = &corev1.AzureFileVolumeSource{} }},
	{"vsphereVolume", func(v *corev1.Volume) bool { return v.VsphereVolume != nil },
		func(v *corev1.Volume) { v.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{} }},
	{"quobyte", func(v *corev1.Volume) bool { return v.Quobyte != nil },
		func(v *corev1.Volume) { v.Quobyte = &corev1.QuobyteVolumeSource{} }},
	{"azureDisk", func(v *corev1.Volume) bool { return v.AzureDisk != nil },
		func(v *corev1.Volume) { v.AzureDisk = &corev1.AzureDiskVolumeSource{} }},
	{"photonPersistentDisk", func(v *corev1.Volume) bool { return v.PhotonPersistentDisk != nil },
		func(v *corev1.Volume) { v.PhotonPersistentDisk = &corev1.PhotonPersistentDiskVolumeSource{} }},
	{"portworxVolume", func(v *corev1.Volume) bool { return v.PortworxVolume != nil },
		func(v *corev1.Volume) { v.PortworxVolume = &corev1.PortworxVolumeSource{} }},
	{"scaleIO", func(v *corev1.Volume) bool { return v.ScaleIO != nil },
		func(v *corev1.Volume) { v.ScaleIO = &corev1.ScaleIOVolumeSource{} }},
	{"storageos", func(v *corev1.Volume) bool { return v.StorageOS != nil },
		func(v *corev1.Volume) { v.StorageOS = &corev1.StorageOSVolumeSource{} }},
}
