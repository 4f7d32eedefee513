package console

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// knownHost refuses names that are not the console's. Without this a foreign site, whose name points to this machine,
// could read the console by its visitor's browser. A program that authorizes by itself is safe from that, since the
// browser does not send its cookies there.
func (h *Handler) knownHost(r *http.Request) error {
	if h.opt.Authorize != nil && len(h.opt.Hosts) == 0 {
		return nil
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if h.hosts[name] || h.opt.Token != "" && len(h.opt.Hosts) == 0 && ownAddress(name) {
		return nil
	}
	return fmt.Errorf("the console does not know the host %q: add it to Options.Hosts, or use 127.0.0.1: %w", name, ErrRefused)
}

// ownAddress reports whether the name is an address: no foreign site's name is one.
func ownAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// may decides about a request.
func (h *Handler) may(r *http.Request, a Action, target string) error {
	switch {
	case !a.looks() && !h.opt.Write:
		return fmt.Errorf("the console is read-only unless Options.Write, or --write of the command, is set: %w", ErrRefused)
	case h.opt.Authorize != nil:
		return h.opt.Authorize(r, a, target)
	case h.entered(r), local(r) && a.looks():
		return nil
	case h.opt.Token != "":
		return fmt.Errorf("enter the token first: %w", ErrRefused)
	}
	return fmt.Errorf("the console answers requests from its own machine; for others the program sets Options.Authorize or Token: %w", ErrRefused)
}

// allowed reports whether a request is allowed, and otherwise answers it.
func (h *Handler) allowed(w http.ResponseWriter, r *http.Request, a Action, target string) bool {
	err := h.may(r, a, target)
	if err == nil {
		return true
	}
	status := http.StatusForbidden
	if h.opt.Token != "" && (a.looks() || h.opt.Write) {
		status = http.StatusUnauthorized
	}
	h.problem(w, r, status, err)
	return false
}

// local reports whether a request comes from this machine and from no proxy on it.
func local(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

const cookieName = "parley_console"

// entered reports whether the token was entered in the request's browser.
func (h *Handler) entered(r *http.Request) bool {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session[c.Value]
}

// enter takes the token, once, for a cookie.
func (h *Handler) enter(w http.ResponseWriter, r *http.Request) {
	if h.opt.Token == "" {
		h.problem(w, r, http.StatusNotFound, errors.New("this console has no token"))
		return
	}
	if r.Method == http.MethodGet {
		h.write(w, r, http.StatusOK, "enter", &content{Title: "Enter the token", View: "enter"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 4096)
	session := h.exchange(r.PostFormValue("token"))
	if session == "" {
		h.log.Warn("parley: console: a wrong token was entered", "event", "console.refused", "remote", r.RemoteAddr)
		h.problem(w, r, http.StatusForbidden, fmt.Errorf("the token is wrong, or was entered before: start the console again for another one: %w", ErrRefused))
		return
	}
	h.log.Info("parley: console: the token was entered", "event", "console.entered", "remote", r.RemoteAddr)
	// Without Path the cookie belongs to the console's folder, wherever that is mounted.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: session, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	redirect(w, "./")
}

// exchange returns what the cookie of a browser says in which the token was entered.
func (h *Handler) exchange(token string) (session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token == "" || subtle.ConstantTimeCompare([]byte(strings.TrimSpace(token)), []byte(h.token)) != 1 {
		return ""
	}
	h.token = ""
	session = rand.Text()
	h.session[session] = true
	return session
}

// redirect goes to a page by a relative link, since the console does not know where it is mounted.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// theme keeps the choice between dark and light in a cookie, so that pages come in it.
func (h *Handler) theme(w http.ResponseWriter, r *http.Request) {
	if !h.allowed(w, r, View, "") {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 8192)
	choice := r.PostFormValue("theme")
	if choice != "dark" && choice != "light" {
		choice = ""
	}
	http.SetCookie(w, &http.Cookie{Name: "parley_theme", Value: choice, MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	redirect(w, back(r.PostFormValue("back")))
}

// back is the page of the console to return to: nothing but one of its views.
func back(link string) string {
	u, err := url.Parse(link)
	if err == nil && u.Scheme == "" && u.Host == "" && u.User == nil {
		for _, v := range views {
			if v.Name == strings.TrimPrefix(u.Path, "./") {
				return "./" + v.Name + query(u.Query(), v.params)
			}
		}
	}
	return "./"
}
