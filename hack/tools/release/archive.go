package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file within an archive.
type file struct {
	path    string
	mode    os.FileMode
	content []byte
}

// archives writes one archive for each platform: the program, the licence, completions and manual pages.
func (r *release) archives(documents []file) error {
	for _, platform := range r.platforms {
		program, err := os.ReadFile(r.program(platform))
		if err != nil {
			return err
		}
		files := append([]file{{filepath.Base(r.program(platform)), 0o755, program}}, documents...)
		for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
			content, err := os.ReadFile(filepath.Join(r.source, name))
			if err != nil {
				return err
			}
			files = append(files, file{name, 0o644, content})
		}
		pack := packTar
		if strings.HasPrefix(platform, "windows/") {
			pack = packZip
		}
		content, err := pack(files, r.created)
		if err != nil {
			return err
		}
		if err := r.put(archiveName(r.version, platform), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archiveName returns the name of a platform's archive.
func archiveName(version, platform string) string {
	suffix := ".tar.gz"
	if strings.HasPrefix(platform, "windows/") {
		suffix = ".zip"
	}
	return fmt.Sprintf("ephor_%s_%s%s", version, strings.ReplaceAll(platform, "/", "_"), suffix)
}

// packTar returns a gzipped tar archive whose bytes depend only on the files and the time.
func packTar(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, f := range sorted(files) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// packZip is packTar for Windows.
func packZip(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range sorted(files) {
		header := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.path, b.path) })
}
