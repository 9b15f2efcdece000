const { dataset } = document.documentElement
/** Where the servers are, as auth wrote it into the page. Relay and vault are empty where they do not run beside it. */
export const { auth: serviceUrl = '', relay: relayUrl = '', vault: vaultUrl = '', fileBytes, openReads } = dataset
export const usesCookies = dataset.mode === 'cookie'
export const show = (id: string, isShown: boolean): boolean => (getElement(id).hidden = !isShown)
export const write = (id: string, text: string): string => (getElement(id).textContent = text)

// Without https, browsers have no encryption; the page says so where it is needed.
document.documentElement.toggleAttribute('data-insecure', !isSecureContext)

if (URL.canParse(serviceUrl) && new URL(serviceUrl).origin !== location.origin) {
  getElement('own-url', HTMLAnchorElement).href = new URL(location.pathname + location.hash, serviceUrl).href
  write('own-url', serviceUrl)
  show('elsewhere', true)
}

/** An element of the page. @throws Error where the page has no such element */
export function getElement<T extends HTMLElement = HTMLElement>(id: string, type?: abstract new () => T): T {
  const element = document.getElementById(id)
  if (!(element instanceof (type ?? HTMLElement))) throw new Error(`The page has no #${id}`)
  // Without a type, T is HTMLElement.
  return element as T
}

/** Lets the user press what needs a wallet or a session. The style shows the rest. */
export function allow(need: 'wallet' | 'session', isThere: boolean): void {
  document.documentElement.toggleAttribute(`data-${need}`, isThere)
  const buttons = document.querySelectorAll<HTMLButtonElement>(`button[data-needs=${need}]`)
  for (const button of buttons) button.disabled = !isThere
}

/** A time of whole seconds, as people write it. */
export const formatDate = (seconds: number): string =>
  new Date(seconds * 1_000).toLocaleString([], { dateStyle: 'long', timeStyle: 'short' })

/** A number of bytes, as people write it. */
export const formatSize = (bytes: number): string =>
  bytes < 2 ** 20 ? `${Math.ceil(bytes / 2 ** 10)} KiB` : `${(Math.floor((bytes / 2 ** 20) * 10) / 10).toFixed(1)} MiB`

/** Makes an element of texts and other elements. Texts are never parsed as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}
