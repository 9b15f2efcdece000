import { afterAll, beforeEach } from '@jest/globals'
import { temporaryFolder } from './store-folder.js'

/** A folder that each test around the call finds new and empty. All are removed at the end. */
export function folderOfEachTest(): { readonly path: string } {
  const folder = { path: '' }
  const removals: (() => void)[] = []
  beforeEach(() => {
    const { path, remove } = temporaryFolder()
    removals.push(remove)
    folder.path = path
  })
  afterAll(() => {
    for (const remove of removals) remove()
  })
  return folder
}
