package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"
)

//go:embed assets
var assets embed.FS

// serveAssets adds the page and its files. They are read once; a file's hash is
// its tag, so that a browser that has it asks and gets nothing again.
func serveAssets(mux *http.ServeMux) {
	err := fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		where := "GET /" + name
		switch path.Base(name) {
		case "index.html":
			where = "GET /{$}"
		case "login.html":
			return nil
		}
		sum := sha256.Sum256(text)
		tag := `"` + hex.EncodeToString(sum[:12]) + `"`
		typ := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".js" {
			typ = "text/javascript; charset=utf-8"
		}
		mux.HandleFunc(where, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", typ)
			w.Header().Set("ETag", tag)
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
		})
		return nil
	})
	if err != nil {
		panic("web: the embedded assets can't be read: " + err.Error())
	}
}

var loginSays = []byte("<!-- says -->")

// serveLogin shows the form; says is one of ours.
func serveLogin(w http.ResponseWriter, status int, says string) {
	text, err := assets.ReadFile("assets/login.html")
	if err != nil {
		panic("web: the embedded assets can't be read: " + err.Error())
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.Replace(text, loginSays, []byte(says), 1)) // who asked may be gone
}
