package convert

import (
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/value"
)

// verified adds images of containers and volumes for rules that verify images: the images that the rule's patterns match, in all spellings, and other
// images.
func (s *sampler) verified(rules any) {
	list, _ := rules.([]any)
	patterns := []any{"*", "docker.io/*", "registry.example.com/*"}
	for _, r := range list {
		rule, _ := r.(map[string]any)
		entries, _ := rule["verifyImages"].([]any)
		if entries == nil {
			return
		}
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			for _, field := range []string{"imageReferences", "skipImageReferences"} {
				of, _ := entry[field].([]any)
				patterns = append(patterns, of...)
			}
			patterns = append(patterns, entry["image"])
		}
	}
	for _, p := range patterns {
		pattern, _ := p.(string)
		for _, fill := range []string{"app", "team/app"} {
			name := strings.Trim(instance(strings.TrimSpace(pattern), fill), "/:@")
			if at := strings.IndexByte(name, '@'); at >= 0 {
				name = name[:at]
			}
			slash := strings.LastIndexByte(name, '/')
			bare, _, tagged := strings.Cut(name[slash+1:], ":")
			if name == "" || bare == "" {
				continue
			}
			bare = name[:slash+1] + bare
			s.images = append(s.images, bare, bare+":v1", bare+":v1@"+digestOf(bare), bare+"@"+digestOf(bare))
			if tagged {
				s.images = append(s.images, name)
			}
			if host, path, ok := strings.Cut(bare, "/"); ok && imageref.IsRegistry(host) {
				s.images = append(s.images, strings.ToUpper(host)+"/"+path+":v1")
				if !strings.Contains(host, ":") {
					s.images = append(s.images, host+":0443/"+path)
				}
			}
		}
	}
	s.patches = true // containers need names
	for _, root := range []*value.Fields{s.reads, s.reads.Member("spec").Member("template"), s.reads.Member("spec").Member("jobTemplate").Member("spec").Member("template")} {
		for _, group := range []string{"containers", "initContainers", "ephemeralContainers"} {
			items := root.Member("spec").Member(group).Items()
			items.Member("name")
			items.Member("image")
		}
		volumes := root.Member("spec").Member("volumes").Items()
		volumes.Member("name")
		volumes.Member("image").Member("reference")
	}
}

// extracted adds the fields in which imageExtractors find images.
func (s *sampler) extracted(original map[string]any) {
	eachExtractor(original, func(_ string, x map[string]any) {
		path, _ := x["path"].(string)
		key, _ := x["key"].(string)
		field, _ := x["value"].(string)
		if field == "" {
			field = path[strings.LastIndexByte(path, '/')+1:]
		} else {
			pointerFields(s.reads, "/"+strings.Trim(path, "/")+"/"+field)
		}
		pointerFields(s.reads, "/"+strings.Trim(path, "/"))
		if key != "" {
			pointerFields(s.reads, "/"+strings.Trim(path, "/")+"/"+key)
		}
		s.references = append(s.references, field)
	})
}
