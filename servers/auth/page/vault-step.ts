import type { DidAuthClient } from 'express-did-auth/client'
import { DidAuthClientError, VaultClient } from 'express-did-auth/client/vault'
import { byId, bytesOfBase64url, make, makeButton } from './elements.js'
import { Step } from './step.js'
import type { PageWallet } from './wallet-step.js'

/** Of the list in the vault, and of the key in this tab's storage. */
const LIST = 'notes'
const STORED_KEY = 'notes-key'

/** Changes something, where what was read is still so. */
type Change = (vault: VaultClient, condition: { ifMatch?: string }) => Promise<string>

/**
 * Notes in the vault, encrypted here.
 *
 * @param auth - of the vault, which is a service of its own
 * @returns what shows no notes any more: those of the wallet of before
 */
export function startVaultStep(auth: DidAuthClient, wallet: () => PageWallet): () => void {
  const step = new Step('vault')
  const keyInput = byId('vault-key', HTMLInputElement)
  /** Of the list as it is shown. Nothing was read yet: a note is added to what is there. */
  let condition: { ifMatch?: string } = {}

  /** Logs in where that is needed, changes something, and reads the list again. */
  async function change(work: Change): Promise<string> {
    const vault = new VaultClient({ auth, encrypt: { key: parseKey(keyInput.value) } })
    await logIn()
    try {
      const outcome = await work(vault, condition)
      await read(vault)
      return outcome
    } catch (error) {
      if (!(error instanceof DidAuthClientError && error.code === 'CONFLICT')) throw error
      await read(vault)
      throw new Error('Another device or tab changed the notes meanwhile. Here they are as they are now; try again.')
    }
  }

  /** The storage may have a session of another wallet. */
  async function logIn(): Promise<void> {
    const { address, wallet: chosen } = wallet()
    await auth.ready
    if (auth.session?.did.toLowerCase().endsWith(address.toLowerCase()) === true) return
    await auth.logOut()
    await auth.logIn({ wallet: chosen })
  }

  async function read(vault: VaultClient): Promise<void> {
    // In this order: where the ids are of a later list than the ETag, the vault refuses the change of a wrong entry.
    const { contents, etag } = await vault.get(LIST)
    const entries = (await vault.keys()).find(({ key }) => key === LIST)?.entries ?? []
    condition = { ifMatch: etag }
    byId('notes').replaceChildren(...contents.map((text, index) => makeItem(text, entries[index]?.id ?? '')))
  }

  function makeItem(text: string, id: string): HTMLLIElement {
    const edit = makeButton('Edit', `Edit the note ${text}`, () => {
      const area = make('textarea', { rows: '2', 'aria-label': 'The note' })
      area.value = text
      const save = changeButton('Save', 'Save the note', 'Replace a note', async (vault, condition) => {
        await vault.replace(LIST, area.value, { id, ...condition })
        return 'Replaced.'
      })
      item.className = 'editing'
      item.replaceChildren(area, make('span', { class: 'actions' }, save))
      area.focus()
    })
    const remove = changeButton('Delete', `Delete the note ${text}`, 'Delete a note', async (vault, condition) => {
      await vault.delete(LIST, { id, ...condition })
      return 'Deleted.'
    })
    const item = make('li', {}, make('p', {}, text), make('span', { class: 'actions' }, edit, remove))
    return item
  }

  const changeButton = (text: string, label: string, action: string, work: Change): HTMLButtonElement =>
    step.makeButton(text, label, action, () => change(work))

  keyInput.value = sessionStorage.getItem(STORED_KEY) ?? makeKey()
  const keep = (): void => {
    sessionStorage.setItem(STORED_KEY, keyInput.value)
  }
  keep()
  keyInput.addEventListener('change', keep)
  step.onCopy('copy-key', () => keyInput.value)
  step.onClick('read-notes', 'Read my notes', () => change(async () => 'Read and decrypted.'))
  step.onSubmit('note-form', 'Add a note', () =>
    change(async (vault, condition) => {
      const note = byId('note', HTMLTextAreaElement)
      await vault.add(LIST, note.value, condition)
      note.value = ''
      return 'Added. The vault has the ciphertext only.'
    })
  )
  return () => {
    byId('notes').replaceChildren()
    condition = {}
  }
}

function makeKey(): string {
  const text = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

function parseKey(text: string): Uint8Array {
  if (!/^[\w-]{43}$/.test(text.trim())) throw new Error('A key has 43 characters: letters, digits, - and _.')
  return bytesOfBase64url(text.trim())
}
