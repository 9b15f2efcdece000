/** Cookies as a browser keeps them for one service: shared by its tabs, and read by no script. */
export class CookieJar {
  readonly cookies = new Map<string, string>()

  /** A fetch that sends and keeps the cookies where it is told to include them. */
  wrap(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
    return async (input, init = {}) => {
      if (init.credentials !== 'include') return fetch(input, init)
      const headers = new Headers(init.headers)
      const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      if (cookie !== '') headers.set('Cookie', cookie)
      const response = await fetch(input, { ...init, headers })
      for (const line of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        if (value === '') this.cookies.delete(name)
        else this.cookies.set(name, value)
      }
      return response
    }
  }
}
