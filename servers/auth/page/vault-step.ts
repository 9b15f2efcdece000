import type { DidAuthClient } from 'express-did-auth/client'
import { DidAuthClientError, VaultClient } from 'express-did-auth/client/vault'
import { byId, make, makeButton, onClick, onCopy, onSubmit, whileBusy } from './elements.js'
import type { PageWallet } from './page-wallet.js'
import type { ExchangeList } from './wire-view.js'

const STATUS = 'vault-status'
/** Of the list in the vault, and of the key in this tab's storage. */
const LIST = 'notes'
const STORED_KEY = 'notes-key'
const KEY_BYTES = 32

export interface VaultParts {
  /** Of the vault, which is a service of its own. */
  auth: DidAuthClient
  exchanges: ExchangeList
  wallet: () => PageWallet
}

interface Note {
  id: string
  text: string
}

/** Notes in the vault, encrypted here. */
export class VaultStep {
  readonly #parts: VaultParts
  readonly #key = byId('vault-key', HTMLInputElement)
  /** Of the list as it is shown. */
  #etag: string | undefined

  constructor(parts: VaultParts) {
    this.#parts = parts
    this.#key.value = sessionStorage.getItem(STORED_KEY) ?? makeKey()
    const keep = (): void => {
      sessionStorage.setItem(STORED_KEY, this.#key.value)
    }
    keep()
    this.#key.addEventListener('change', keep)
    onCopy('copy-key', STATUS, () => this.#key.value)
    onClick('read-notes', STATUS, () => this.#change('Read my notes', async () => 'Read and decrypted.'))
    onSubmit('note-form', STATUS, () =>
      this.#change('Add a note', async (vault) => {
        const note = byId('note', HTMLTextAreaElement)
        await vault.add(LIST, note.value, this.#condition())
        note.value = ''
        return 'Added. The vault has the ciphertext only.'
      })
    )
  }

  /** Shows no notes of the wallet of before. */
  forget(): void {
    byId('notes', HTMLElement).replaceChildren()
    this.#etag = undefined
  }

  /** Logs in where that is needed, changes something, and reads the list again. */
  async #change(action: string, work: (vault: VaultClient) => Promise<string>): Promise<string> {
    const { auth, exchanges } = this.#parts
    exchanges.begin(action)
    const vault = new VaultClient({ auth, encrypt: { key: parseKey(this.#key.value) } })
    await this.#logIn()
    try {
      const outcome = await work(vault)
      await this.#read(vault)
      return outcome
    } catch (error) {
      if (!(error instanceof DidAuthClientError && error.code === 'CONFLICT')) throw error
      await this.#read(vault)
      throw new Error('Another device or tab changed the notes meanwhile. Here they are as they are now; try again.')
    }
  }

  /** The storage may have a session of another wallet. */
  async #logIn(): Promise<void> {
    const { auth, wallet } = this.#parts
    const { address, wallet: chosen } = wallet()
    await auth.ready
    if (auth.session?.did.toLowerCase().endsWith(address.toLowerCase()) === true) return
    await auth.logOut()
    await auth.logIn({ wallet: chosen })
  }

  async #read(vault: VaultClient): Promise<void> {
    // In this order: where the ids are of a later list than the ETag, the vault refuses the change of a wrong entry.
    const { contents, etag } = await vault.get(LIST)
    const keys = await vault.keys()
    const entries = keys.find(({ key }) => key === LIST)?.entries ?? []
    this.#etag = etag
    const notes = contents.map((text, index) => ({ text, id: entries[index]?.id ?? '' }))
    byId('notes', HTMLElement).replaceChildren(...notes.map((note) => this.#makeItem(note)))
  }

  /** What was read is still so. Nothing was read yet: the note is added to what is there. */
  #condition(): { ifMatch?: string } {
    return this.#etag === undefined ? {} : { ifMatch: this.#etag }
  }

  #makeItem(note: Note): HTMLLIElement {
    const item = make('li', {})
    const edit = makeButton('Edit', `Edit the note ${note.text}`, () => {
      this.#edit(item, note)
    })
    const remove = makeButton('Delete', `Delete the note ${note.text}`, (button) => {
      this.#run(button, 'Delete a note', async (vault) => {
        await vault.delete(LIST, { id: note.id, ...this.#condition() })
        return 'Deleted.'
      })
    })
    item.append(make('p', {}, note.text), make('span', { class: 'actions' }, edit, remove))
    return item
  }

  #edit(item: HTMLLIElement, note: Note): void {
    const text = make('textarea', { rows: '2', 'aria-label': 'The note' })
    text.value = note.text
    const save = makeButton('Save', 'Save the note', (button) => {
      this.#run(button, 'Replace a note', async (vault) => {
        await vault.replace(LIST, text.value, { id: note.id, ...this.#condition() })
        return 'Replaced.'
      })
    })
    item.className = 'editing'
    item.replaceChildren(text, make('span', { class: 'actions' }, save))
    text.focus()
  }

  #run(button: HTMLButtonElement, action: string, work: (vault: VaultClient) => Promise<string>): void {
    void whileBusy(button, STATUS, () => this.#change(action, work))
  }
}

function makeKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

function parseKey(text: string): Uint8Array {
  if (!/^[\w-]{43}$/.test(text.trim())) throw new Error('A key has 43 characters: letters, digits, - and _.')
  const binary = atob(text.trim().replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}
