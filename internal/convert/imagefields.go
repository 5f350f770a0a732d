package convert

import "slices"

// imagesMark stands for the variable images, which holds a map for each list of containers.
const imagesMark = "images"

// imagesBelow returns the images of a list of containers, or of one container of it.
func (s *search) imagesBelow(left term, name string) (term, bool) {
	key, dynamic, ok := s.key(name)
	if !ok {
		return left, false
	}
	if len(left.keys) == 0 {
		if dynamic != (expr{}) {
			return s.unknown("images")
		}
		return term{expr: member(imagesMark + "." + key), root: left.root, keys: []string{key}}, true
	}
	containers := path(s.object, "spec", left.keys[0])
	wanted := dynamic
	if wanted == (expr{}) {
		wanted = member(text(key))
	}
	if name := s.element.field("name").text; slices.Equal(s.elementPlace, []string{"spec", left.keys[0], ""}) && (wanted.text == name || wanted.text == "string("+name+")") {
		return term{expr: s.element.field("image"), image: true}, true // the element of a loop over these containers
	}
	x := s.variable()
	named := member(containers.orElse("[]").text).macro("filter", x, comparison(x+".name == "+wanted.within(bindsUnary)))
	return term{expr: member(named.text + "[0].image"), image: true, needs: comparison("size(" + named.text + ") > 0")}, true
}

// imagesOf returns the references of the images of a list of containers.
func (s *search) imagesOf(left term) (term, bool) {
	if len(left.keys) != 1 {
		return term{}, false
	}
	containers := path(s.object, "spec", left.keys[0]).list()
	x := s.variable()
	return containers.each(func(l expr) expr { return l.macro("map", x, member(x+".image")) }), true
}

// imageField returns a part of an image reference. In CEL, Docker Hub is index.docker.io, and its official images begin with library/.
func (s *search) imageField(left term, name string) (term, bool) {
	of := "image(" + left.text + ")"
	out := term{shape: textShape, needs: left.needs, given: left.given}
	switch name {
	case "registry":
		out.expr = expr{of + ".registry() == 'index.docker.io' ? 'docker.io' : " + of + ".registry()", bindsTernary}
	case "path":
		out.expr = expr{of + ".registry() == 'index.docker.io' && " + of + ".repository().startsWith('library/') ? " + of + ".repository().substring(8) : " + of + ".repository()", bindsTernary}
	case "name":
		x := s.variable()
		out.expr = member("[" + of + ".repository().split('/')].map(" + x + ", " + x + "[size(" + x + ") - 1])[0]")
	case "tag":
		out.expr = member(of + ".tag()")
		out.needs = and(orYes(left.needs), comparison(of+".tag() != ''"))
	case "digest":
		out.expr = member(of + ".digest()")
		out.needs = and(orYes(left.needs), comparison(of+".digest() != ''"))
	default:
		return s.unknown("the field " + name + " of an image")
	}
	return out, true
}
