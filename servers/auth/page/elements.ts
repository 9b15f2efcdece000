/**
 * An element of index.html.
 *
 * @throws Error where the page has no such element
 */
export function byId<T extends HTMLElement = HTMLElement>(id: string, type?: abstract new () => T): T {
  const element = document.getElementById(id)
  if (!(element instanceof (type ?? HTMLElement))) throw new Error(`The page has no #${id}`)
  // Without a type, T is HTMLElement.
  return element as T
}

export const show = (id: string, isShown: boolean): boolean => (byId(id).hidden = !isShown)
export const write = (id: string, text: string): string => (byId(id).textContent = text)

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

/** A button of a list, such as "End". */
export function makeButton(text: string, label: string, onClick: () => void): HTMLButtonElement {
  const button = make('button', { type: 'button', class: 'quiet', 'aria-label': label }, text)
  button.addEventListener('click', onClick)
  return button
}

/** @throws Error for another character */
export function bytesOfBase64url(text: string): Uint8Array {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}
