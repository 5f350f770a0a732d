package jmespath

// normalizeImage adds the default registry to an image reference without one, and the tag latest to one without tag and digest. Unlike
// Docker it does not add library/.
func normalizeImage(env *Env, image string) (string, error) {
	r, err := env.Images.Parse(image)
	if err != nil {
		return "", err
	}
	return r.String(), nil
}
