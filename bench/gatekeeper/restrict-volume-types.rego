allowed := {"name", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"}

bad {
	spec.volumes[_][key]
	not allowed[key]
}
