import express from 'express'

/** The major version that `express` means here: `app.del` went with the fourth. */
export const expressMajor = 'del' in express.application ? 4 : 5
